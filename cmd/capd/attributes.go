package main

import (
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

type chmodCommand struct {
	NoExec bool     `name:"no-exec" short:"x" help:"The files can no longer be executed."`
	Args   []string `arg:"" name:"mode-and-paths" help:"+x, unless -x is given, and the files."`
	capFlag
}

func (chmodCommand) Help() string {
	return `+x: whoever can read the files can execute them, as far as the host lets anybody. The content and its version stay.

Examples:
  capd chmod +x project/build.sh
  capd chmod -x project/a.txt project/b.txt`
}

func (c *chmodCommand) Run(e *env) error {
	paths := c.Args
	if !c.NoExec {
		if paths[0] != "+x" {
			return usageError{"say +x or -x, and then the files: capd chmod +x PATH"}
		}
		paths = paths[1:]
	}
	if c.NoExec && slices.Contains(paths, "+x") {
		return usageError{"say +x or -x, and not both"}
	}
	return c.set(e, paths, vfs.Attributes{Exec: new(!c.NoExec)})
}

// set sets a of the files at paths.
func (f capFlag) set(e *env, paths []string, a vfs.Attributes) error {
	if len(paths) == 0 {
		return usageError{"which files? name their paths"}
	}
	d, err := f.dir(e)
	if err != nil {
		return err
	}
	for _, path := range paths {
		file := d.OpenFile(trimPath(path))
		err := file.SetAttributes(e, a, vfs.If{})
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

type touchCommand struct {
	Paths []string `arg:"" help:"The files. One that is missing is made."`
	Time  string   `placeholder:"T" help:"The time of modification, as 2026-01-31T12:00:00Z (default: now)."`
	capFlag
}

func (touchCommand) Help() string {
	return `The content and its version stay.

Examples:
  capd touch project/stamp
  capd touch --time 2026-01-31T12:00:00Z project/a.txt`
}

func (c *touchCommand) Run(e *env) error {
	at := time.Now()
	if c.Time != "" {
		var err error
		if at, err = time.Parse(time.RFC3339, c.Time); err != nil {
			return usageError{"--time " + vfs.Printable(c.Time) + " is not a time like 2026-01-31T12:00:00Z"}
		}
	}
	a := vfs.Attributes{ModifiedMs: new(at.UnixMilli())}
	if a.Check() != nil {
		last := time.UnixMilli(vfs.MaxModifiedMs).UTC()
		return usageError{"a time is from 1970-01-01T00:00:00Z to " + last.Format(time.RFC3339)}
	}
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	for _, path := range c.Paths {
		if strings.HasSuffix(path, "/") {
			return vfs.At(path, vfs.IsDir)
		}
		f, err := openOrCreate(e, d, trimPath(path))
		if err != nil {
			return belowMissing(path, err)
		}
		err = f.SetAttributes(e, a, vfs.If{})
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
