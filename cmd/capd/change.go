package main

import (
	"fmt"
	"io"
	"strings"

	"capd/cap/wire"
	"capd/client"
	"capd/vfs"
)

// condition holds --if-version and --if-absent.
type condition struct {
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
	IfAbsent  bool    `help:"Only if nothing is there."`
}

func (c condition) read() (vfs.If, error) {
	if c.IfVersion == nil {
		return vfs.If{Absent: c.IfAbsent}, nil
	}
	if c.IfAbsent {
		return vfs.If{}, usageError{"--if-version and --if-absent exclude each other"}
	}
	v, err := vfs.ParseVersion(*c.IfVersion)
	return vfs.If{Is: v}, err
}

type putCommand struct {
	Path string `arg:"" optional:"" help:"The file, made if it is missing (default: the capability itself)."`
	condition
	capFlag
}

func (putCommand) Help() string {
	return `Prints the new version. Readers see the old content or the new, and an interrupted put changes nothing.

Examples:
  echo hello | capd put project/note.txt
  capd put project/note.txt --if-version "$V" < note.txt
  capd put project/new.txt --if-absent < new.txt`
}

func (c *putCommand) Run(e *env) error {
	cond, err := c.read()
	if err != nil {
		return err
	}
	path, err := filePath(c.Path)
	if err != nil {
		return err
	}
	conn, n, err := c.dial(e)
	if err != nil {
		return err
	}
	in := newProgress(e, interruptible(e, conn), "sent")
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

type appendCommand struct {
	Path string `arg:"" optional:"" help:"The file, made if it is missing (default: the capability itself)."`
	capFlag
}

func (appendCommand) Help() string {
	return `Up to 1 MiB is added in one piece, even if others append too; more is added in several pieces.

Examples:
  date | capd append project/log.txt`
}

func (c *appendCommand) Run(e *env) error {
	path, err := filePath(c.Path)
	if err != nil {
		return err
	}
	conn, n, err := c.dial(e)
	if err != nil {
		return err
	}
	f, ok := n.(*client.File)
	switch d, dir := n.(*client.Dir); {
	case ok && path != "":
		return vfs.At(path, vfs.Errorf(vfs.NotDir, "this capability is a file; leave the path out"))
	case dir && path == "":
		return usageError{"append to what? name a path"}
	case dir:
		if f, err = openOrCreate(e, d, path); err != nil {
			return belowMissing(path, err)
		}
	}
	b := make([]byte, wire.MaxChunk)
	in := interruptible(e, conn)
	for {
		n, rerr := io.ReadFull(in, b)
		if n > 0 {
			if _, err := f.Append(e, b[:n], vfs.If{}); err != nil {
				return err
			}
		}
		if rerr == io.EOF || rerr == io.ErrUnexpectedEOF {
			return f.Sync(e)
		}
		if rerr != nil {
			return rerr
		}
	}
}

func openOrCreate(e *env, d *client.Dir, path string) (*client.File, error) {
	for {
		n, err := d.Walk(e, path, true)
		if err == nil {
			if f, ok := n.(*client.File); ok {
				return f, nil
			}
			return nil, vfs.At(path, vfs.IsDir)
		}
		if vfs.CodeOf(err) != vfs.NotFound {
			return nil, err
		}
		f, err := d.CreateFile(e, path)
		if vfs.CodeOf(err) != vfs.Exists {
			return f, err
		}
		// Somebody made it in the meantime, or it is a broken link.
		if n, err := d.Walk(e, path, false); err == nil {
			n.Close()
			if vfs.KindOf(n) == vfs.LinkKind {
				return nil, vfs.At(path, vfs.Errorf(vfs.NotFound, "the link leads to nothing"))
			}
		}
		if err := e.Err(); err != nil {
			return nil, err
		}
	}
}

type mkdirCommand struct {
	Path    string `arg:"" help:"The directory to make."`
	Parents bool   `short:"p" help:"Make missing parents too; it is no error if the directory exists."`
	capFlag
}

func (mkdirCommand) Help() string {
	return `Examples:
  capd mkdir project/notes
  capd mkdir -p project/a/b/c`
}

func (c *mkdirCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	if !c.Parents {
		_, err := d.CreateDir(e, path)
		return belowMissing(path, err)
	}
	names, err := vfs.SplitPath(path)
	if err != nil {
		return vfs.At(path, err)
	}
	for i := range names {
		at := strings.Join(names[:i+1], "/")
		if _, err := d.CreateDir(e, at); err == nil {
			continue
		} else if n, werr := d.Walk(e, at, true); werr != nil {
			return err
		} else if _, ok := n.(*client.Dir); !ok {
			return vfs.At(at, vfs.NotDir)
		}
	}
	return nil
}

type rmCommand struct {
	Path      string  `arg:"" help:"The file, link or empty directory to remove."`
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
	capFlag
}

func (rmCommand) Help() string {
	return `A link is removed itself, never what it leads to.

Examples:
  capd rm project/note.txt`
}

func (c *rmCommand) Run(e *env) error {
	cond, err := condition{IfVersion: c.IfVersion}.read()
	if err != nil {
		return err
	}
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	return d.RemovePath(e, trimPath(c.Path), cond)
}
