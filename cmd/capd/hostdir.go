package main

import (
	"capd/backend/physical"
	"capd/vfs"
)

// hostDir opens a directory of this machine for a guest's command, with the authority of the user who typed it. No host
// serves it.
func hostDir(name string) (d vfs.Dir, done func(), err error) {
	store, err := physical.OpenAmbient(name, physical.Options{})
	if err != nil {
		return nil, nil, err
	}
	d = store.Root()
	return d, func() { d.Close(); store.Close() }, nil
}
