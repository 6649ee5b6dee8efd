package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"capd/client"
	"capd/state"
	"capd/vfs"
	"capd/vfs/copier"
)

type putCommand struct {
	Path      string `arg:"" optional:"" help:"The file, made if it is missing (default: the capability itself)."`
	From      string `placeholder:"FILE" type:"path" help:"Put this file of this machine, in place of standard input."`
	Recursive bool   `short:"r" help:"Put a directory: what is in the one that --from names goes into the one at PATH."`
	condition
	capFlag
}

func (putCommand) Help() string {
	return `Prints the new version. Readers see the old content or the new, and an interrupted put changes nothing.

With -r, each file appears when it is whole, and replaces what has its name. Nothing is removed, and an interrupted
put keeps what was put until then. Executable bits are kept, and links if the capability has the right
link. What cannot be put is left out and named, and the exit
code is 1. The directory is listed first: what appears in it later, such as the copy itself, is not put.

Examples:
  echo hello | capd put project/note.txt
  capd put project/note.txt --from note.txt
  capd put -r project/docs --from ~/docs
  capd put project/note.txt --if-version "$V" < note.txt
  capd put project/new.txt --if-absent < new.txt`
}

func (c *putCommand) Run(e *env) error {
	cond, err := c.read()
	if err != nil {
		return err
	}
	if c.Recursive {
		return c.tree(e, cond)
	}
	path, err := filePath(c.Path)
	if err != nil {
		return err
	}
	conn, n, err := c.dial(e)
	if err != nil {
		return err
	}
	source, err := c.source(e, conn)
	if err != nil {
		return err
	}
	defer source.Close()
	in := newProgress(e, source, "sent")
	defer in.end()
	var v vfs.Version
	switch n := n.(type) {
	case *client.Dir:
		if path == "" {
			return usageError{"put where? name a path"}
		}
		if v, err = n.Put(e, path, in, cond); cond.Is.IsZero() {
			err = belowMissing(path, err)
		}
	case *client.File:
		if path != "" {
			return vfs.At(path, vfs.Errorf(vfs.NotDir, "this capability is a file; leave the path out"))
		}
		v, err = n.Replace(e, in, cond)
	}
	if err != nil {
		return err
	}
	in.end()
	e.done("the file was written; its version is %s", v)
	fmt.Fprintln(e.stdout, v)
	return nil
}

// source opens what is put.
func (c *putCommand) source(e *env, conn *client.Conn) (io.ReadCloser, error) {
	if c.From == "" {
		return io.NopCloser(interruptible(e, conn)), nil
	}
	f, err := os.Open(c.From)
	if err != nil {
		return nil, localError{"--from cannot be read: " + state.Reason(err).Error()}
	}
	switch i, err := f.Stat(); {
	case err != nil:
		f.Close()
		return nil, localError{"--from cannot be read: " + state.Reason(err).Error()}
	case i.IsDir():
		f.Close()
		return nil, usageError{"--from is a directory; put it with -r"}
	}
	return f, nil
}

// tree puts a directory.
func (c *putCommand) tree(e *env, cond vfs.If) error {
	if c.From == "" {
		return usageError{"which directory? name it with --from"}
	}
	if !cond.IsZero() {
		return usageError{"a condition is on one file; leave it out with -r"}
	}
	from, done, err := hostDir(c.From)
	if err != nil {
		return localError{"--from is no directory that can be read: " + state.Reason(err).Error()}
	}
	defer done()
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	// The host may serve what is put, and the copy may lie in it. So all of it is listed before anything is made.
	all, err := copier.List(e, from, copier.Options{Skip: func(copier.Unread) error { return nil }})
	if err != nil {
		return err
	}
	d = together(d, "put")
	path := trimPath(c.Path)
	if path == "" {
		return copyTree(e, from, d, all, "sent")
	}
	to, err := d.CreateDir(e, path)
	if vfs.CodeOf(err) == vfs.Exists {
		var n vfs.Node
		if n, err = d.Walk(e, path, true); err == nil {
			var ok bool
			if to, ok = n.(*client.Dir); !ok {
				err = vfs.At(path, vfs.NotDir)
			}
		}
	}
	if err != nil {
		return belowMissing(path, err)
	}
	err = copyTree(e, from, to, all, "sent")
	if missed, ok := errors.AsType[*client.Unlisted](err); ok {
		return below(path, missed)
	}
	return err
}
