package main

import (
	"cmp"
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
		return instead(belowMissing(path, err), taken, "; if it is a directory, mkdir -p takes it as it is")
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
	Paths     []string `arg:"" name:"path" help:"The files, links or empty directories to remove."`
	Recursive bool     `short:"r" help:"Remove directories with everything in them."`
	IfVersion *string  `placeholder:"V" help:"Only if the file's version is this. For one path."`
	capFlag
}

func (rmCommand) Help() string {
	return `A link is removed itself, never what it leads to. What cannot be removed is named and stays, the others are
removed, and the exit code is 1.

Examples:
  capd rm project/note.txt
  capd rm project/a.txt project/b.txt
  capd rm -r project/build`
}

func (c *rmCommand) Run(e *env) error {
	cond, err := condition{IfVersion: c.IfVersion}.read()
	if err != nil {
		return err
	}
	if !cond.IsZero() && (c.Recursive || len(c.Paths) > 1) {
		return usageError{"--if-version is on one file; leave it out with -r or several paths"}
	}
	paths := make([]string, len(c.Paths))
	for i, path := range c.Paths {
		if paths[i] = trimPath(path); paths[i] == "" {
			return usageError{"the capability itself cannot be removed; name what is in it"}
		}
	}
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	switch {
	case c.Recursive:
		return removeTrees(e, together(d, "rm"), paths)
	case len(paths) == 1:
		return d.RemovePath(e, paths[0], cond)
	}
	var left leftovers
	d = together(d, "rm")
	for _, path := range paths {
		if err := d.RemovePath(e, path, vfs.If{}); err != nil {
			if err := left.add(path, err); err != nil {
				return cmp.Or(left.err(), err)
			}
		}
	}
	return left.err()
}
