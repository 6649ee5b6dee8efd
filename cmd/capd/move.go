package main

import (
	"errors"
	"strings"

	"capd/cap/wire"
	"capd/client"
	"capd/vfs"
)

type mvCommand struct {
	From      string  `arg:"" help:"What to move: a file, a directory or a link."`
	To        string  `arg:"" help:"Its new path. If it is a directory, or ends in a slash, the source moves into it and keeps its name."`
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
	IfTarget  *string `placeholder:"V" help:"Replace the file that is there, only if its version is this."`
	Replace   bool    `short:"f" help:"Replace what is there: a file or a link, or by a directory an empty directory."`
	Exact     bool    `short:"T" help:"The new path is TO itself, even if a directory is there."`
	capFlag
}

func (mvCommand) Help() string {
	return `Nothing is replaced without --replace or --if-target. A link is moved itself, never what it leads to. A
directory is replaced only by a directory, and only if it is empty; that needs -T, since the source moves into it otherwise.

Examples:
  capd mv project/draft.md project/final.md
  capd mv project/a.txt project/done/
  capd mv --replace project/out.tmp project/out.bin
  capd mv tmp/new.txt project/old.txt --if-target "$(capd stat project/old.txt --json | jq -r .version)"`
}

func (c *mvCommand) Run(e *env) error {
	from, err := condition{IfVersion: c.IfVersion}.read()
	if err != nil {
		return err
	}
	to, err := condition{IfVersion: c.IfTarget}.read()
	if err != nil {
		return err
	}
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	to.Over = c.Replace
	path := trimPath(c.From)
	target, err := newPath(e, d, path, c.To, c.Exact)
	if err != nil {
		return err
	}
	err = d.Move(e, path, d, target, from, to)
	if ve, ok := errors.AsType[*vfs.Error](err); ok && strings.HasPrefix(ve.Error(), string(ve.Code)+": "+target+": ") {
		err = belowMissing(target, err)
	}
	return instead(err, taken, "; replace it with --replace, or choose another name")
}

// newPath returns where path goes: into the directory at, or to at itself.
func newPath(e *env, d *client.Dir, path, at string, exact bool) (string, error) {
	to := trimPath(at)
	switch {
	case to == "":
		return wire.Base(path), nil
	case exact:
		return to, nil
	}
	info, err := d.WalkStat(e, to, true)
	switch {
	case err == nil && info.Kind == vfs.DirKind:
		return vfs.Join(to, wire.Base(path)), nil
	case err == nil && strings.HasSuffix(at, "/"):
		return "", vfs.At(to, vfs.NotDir)
	case err != nil && strings.HasSuffix(at, "/"):
		return "", belowMissing(at, err)
	}
	return to, nil // if it is wrong, the host says so
}
