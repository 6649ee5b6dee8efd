package main

import (
	"errors"
	"strings"

	"capd/vfs"
)

type cpCommand struct {
	From      string  `arg:"" help:"What to copy: a file or a directory."`
	To        string  `arg:"" help:"The path of the copy. If it is a directory, or ends in a slash, the copy goes into it under the name of the source."`
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
	IfTarget  *string `placeholder:"V" help:"Replace the file that is there, only if its version is this."`
	Replace   bool    `short:"f" help:"Replace a file that is there by a file."`
	Recursive bool    `short:"r" help:"Changes nothing: a directory is copied with everything in it."`
	Exact     bool    `short:"T" help:"The copy is TO itself, even if a directory is there."`
	JSON      bool    `name:"json" help:"Print what was copied as JSON."`
	capFlag
}

func (cpCommand) Help() string {
	return `The host copies; nothing goes over the connection. All of it is copied or nothing, and a directory appears with
everything in it where the store can do that. A directory is never added to. What is withheld from you is left out. Executable bits are
kept, times are not. Links in a directory are kept if they lead within it.

Examples:
  capd cp project/config.json project/config.old.json
  capd cp project/templates/web project/site/
  capd cp --replace tmp/report.md project/report.md`
}

// copiedJSON is what cp --json prints.
type copiedJSON struct {
	Path    string `json:"path"`
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
}

func (c *cpCommand) Run(e *env) error {
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
	done, err := d.Copy(e, path, d, target, from, to)
	if ve, ok := errors.AsType[*vfs.Error](err); ok && strings.HasPrefix(ve.Error(), string(ve.Code)+": "+target+": ") {
		err = belowMissing(target, err)
	}
	if err != nil || !c.JSON {
		return instead(err, taken, "; replace a file with --replace, or choose another name")
	}
	return printJSON(e.stdout, copiedJSON{vfs.Printable(target), done.Entries, done.Bytes})
}
