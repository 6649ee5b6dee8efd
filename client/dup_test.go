package client_test

import (
	"testing"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// A duplicate is a reference of its own: it outlives what it was made of, and ends by itself.
func TestDup(t *testing.T) {
	ctx := t.Context()
	d := guest(t, scene.InMemory(t, vfstest.Tree{"f": {Data: "x"}}))
	f := d.OpenFile("f")
	dir, err := vfs.Dup(d)
	ok(t, err)
	file, err := vfs.Dup(f)
	ok(t, err)
	ok(t, f.Close())
	_, err = vfs.Dup(f)
	is(t, "a duplicate of a closed file", err, vfs.Stale)
	text, _, err := file.ReadText(ctx)
	ok(t, err)
	if text != "x" {
		t.Errorf("the duplicate reads %q", text)
	}
	ok(t, file.Close())
	ok(t, d.Close())
	_, err = dir.Stat(ctx)
	ok(t, err)
	ok(t, dir.Close())
	_, err = dir.Stat(ctx)
	is(t, "a closed duplicate", err, vfs.Stale)
}
