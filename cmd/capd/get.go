package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"

	"capd/client"
	"capd/state"
	"capd/vfs"
)

type getCommand struct {
	Path  string `arg:"" optional:"" help:"A file or a directory (default: the capability itself)."`
	To    string `arg:"" optional:"" type:"path" help:"Where it goes on this machine (default: its own name, here). Into a directory that is there it goes under its own name. - is standard output, for a file."`
	Force bool   `short:"f" help:"Replace a file that is there."`
	capFlag
}

func (getCommand) Help() string {
	return `A file appears when it is whole, and a directory with everything in it. A directory is never added to.
Executable bits are kept, times are not. Links are kept, unless they lead out of the directory. What cannot be
read is left out and named, and the exit code is 1.

Examples:
  capd get project/report.pdf
  capd get project/docs ~/docs
  capd get -f project/data.csv /tmp/data.csv
  capd get project/notes.txt - | wc -l`
}

func (c *getCommand) Run(e *env) error {
	from := trimPath(c.Path)
	_, n, err := c.node(e, from, true)
	if err != nil {
		return err
	}
	if c.To == "-" {
		return c.print(e, n)
	}
	to := cmp.Or(c.To, ".")
	if i, err := os.Stat(to); err == nil && i.IsDir() {
		if from == "" {
			return usageError{"get where? name what is not there yet"}
		}
		to = filepath.Join(to, path.Base(from))
	}
	parent, done, err := hostDir(filepath.Dir(to))
	if err != nil {
		return localError{"it cannot be put there: " + state.Reason(err).Error()}
	}
	defer done()
	switch n := n.(type) {
	case *client.Dir:
		return c.tree(e, n, from, parent, filepath.Base(to))
	case *client.File:
		return c.file(e, n, parent, filepath.Base(to))
	}
	return vfs.At(from, vfs.Errorf(vfs.NotRegular, "it is neither file nor directory"))
}

// print writes a file to standard output.
func (c *getCommand) print(e *env, n vfs.Node) error {
	f, ok := n.(*client.File)
	if !ok {
		return usageError{"only a file can be written to standard output; for a directory there is capd archive"}
	}
	content, err := vfs.Open(e, f)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = io.Copy(e.stdout, io.NewSectionReader(content, 0, content.Size()))
	return err
}

func (c *getCommand) file(e *env, f *client.File, parent vfs.Dir, name string) error {
	info, err := f.Stat(e)
	if err != nil {
		return err
	}
	content, err := vfs.Open(e, f)
	if err != nil {
		return err
	}
	defer content.Close()
	p := newProgress(e, io.NewSectionReader(content, 0, content.Size()), "received")
	defer p.end()
	_, err = vfs.Install(e, parent, name, p, info.Exec, vfs.If{Absent: !c.Force})
	if vfs.CodeOf(err) == vfs.Conflict || vfs.CodeOf(err) == vfs.Exists {
		err = localError{"a file " + vfs.Printable(name) + " is there already; replace it with --force, or say another name"}
	}
	return err
}

// tree makes the directory out of sight, and then puts it in place.
func (c *getCommand) tree(e *env, d *client.Dir, from string, parent vfs.Dir, name string) error {
	ctx, sync := vfs.SyncTogether(e)
	staged, err := vfs.StageDir(ctx, parent, name)
	if vfs.CodeOf(err) == vfs.Exists {
		return localError{vfs.Printable(name) + " is there already; a directory is never added to, so say another name"}
	}
	if err != nil {
		return err
	}
	defer staged.Close()
	defer staged.Drop(context.WithoutCancel(ctx))
	err = copyTree(e, d, staged, nil, "received")
	missed, partly := errors.AsType[*client.Unlisted](err)
	if err != nil && !partly {
		return errors.Join(err, sync())
	}
	if err := errors.Join(staged.Place(ctx), sync()); err != nil {
		return err
	}
	if partly {
		e.done("the rest is there")
		return below(from, missed)
	}
	return nil
}
