package vfstest

import (
	"context"
	"io"

	"capd/vfs"
)

// Symlink returns a function for [Fill] that makes links below d.
func Symlink(d vfs.Dir) func(path, target string) error {
	return func(path, target string) error {
		ctx := context.Background()
		dir, name, release, err := vfs.WalkParent(ctx, d, path)
		if err != nil {
			return err
		}
		defer release()
		return vfs.Symlink(ctx, dir, name, target)
	}
}

// SetExec returns a function for [Fill] that makes files below d executable.
func SetExec(d vfs.Dir) func(path string) error {
	return func(path string) error {
		ctx := context.Background()
		dir, name, release, err := vfs.WalkParent(ctx, d, path)
		if err != nil {
			return err
		}
		defer release()
		f, err := vfs.WalkFile(ctx, dir, name)
		if err != nil {
			return err
		}
		defer f.Close()
		c, err := vfs.Open(ctx, f)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = vfs.Install(ctx, dir, name, io.NewSectionReader(c, 0, c.Size()), true, vfs.If{})
		return err
	}
}
