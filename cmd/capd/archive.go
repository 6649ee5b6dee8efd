package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"capd/client"
	"capd/state"
	"capd/vfs"
)

type archiveCommand struct {
	Path   string `arg:"" optional:"" help:"A directory (default: the capability itself)."`
	Output string `short:"o" placeholder:"FILE" type:"path" help:"Write the archive to this file of the machine that you are at, instead of standard output. The end of its name says the format."`
	Format string `placeholder:"F" help:"zip, tar, tar.gz or tar.zst (default: tar.gz, or what --output says)."`
	capFlag
}

func (archiveCommand) Help() string {
	return `What cannot be read is left out and named, and the exit code is 1. What policy withholds is left out. Links
are kept as they are.

Examples:
  capd archive project -o project.zip
  capd archive project/docs | tar -tz
  capd archive project --format tar.zst | ssh backup 'cat >project.tar.zst'`
}

func (c *archiveCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	if c.Output == "" && isTerminal(e.stdout) {
		return vfs.Errorf(vfs.Invalid, "an archive is not for a terminal; name a file with --output, or redirect the output")
	}
	format, err := c.format()
	if err != nil {
		return err
	}
	var a client.Archived
	err = c.write(e, func(w io.Writer) (err error) {
		p := newProgress(e, w, "written")
		defer p.end()
		a, err = d.Archive(e, trimPath(c.Path), format, p)
		return err
	})
	if err == nil && len(a.Missed) > 0 {
		err = below(trimPath(c.Path), &client.Unlisted{Errors: a.Missed})
	}
	return err
}

// format returns the format that is asked for. The host says which there are.
func (c *archiveCommand) format() (string, error) {
	switch {
	case c.Format != "":
		return c.Format, nil
	case c.Output == "":
		return "tar.gz", nil
	}
	_, ext, _ := strings.Cut(filepath.Base(c.Output), ".")
	for _, known := range []string{"zip", "tar", "tar.gz", "tgz", "tar.zst", "tzst"} {
		if ext == known || strings.HasSuffix(ext, "."+known) {
			return known, nil
		}
	}
	return "", usageError{"the end of " + vfs.Printable(filepath.Base(c.Output)) + " says no format; name it .zip, .tar, .tar.gz or .tar.zst, or give --format"}
}

// write has do write to where the archive goes. A file appears when it is whole.
func (c *archiveCommand) write(e *env, do func(io.Writer) error) error {
	if c.Output == "" {
		return do(e.stdout)
	}
	f, err := os.CreateTemp(filepath.Dir(c.Output), ".capd-archive-*")
	if err != nil {
		return unwritable(c.Output, err)
	}
	defer os.Remove(f.Name())
	if err = errors.Join(do(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), c.Output); err != nil {
		return unwritable(c.Output, err)
	}
	return nil
}

// unwritable says that the file of this machine called name cannot be made, without the names of the attempt.
func unwritable(name string, err error) error {
	err = state.Reason(err)
	if of, ok := errors.AsType[*os.LinkError](err); ok {
		err = of.Err
	}
	return localError{vfs.Printable(name) + " cannot be written: " + err.Error()}
}
