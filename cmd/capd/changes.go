package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"capd/vfs"
)

type changesCommand struct {
	Path   string        `arg:"" optional:"" help:"A directory (default: the capability itself)."`
	Since  string        `placeholder:"CURSOR" help:"Print what changed since the answer with this cursor."`
	Wait   time.Duration `placeholder:"TIME" help:"If nothing has changed, wait for this long (at most 1m)."`
	Follow bool          `short:"f" help:"Go on printing what changes, until interrupted."`
	Others bool          `help:"Leave out what was done through this grant."`
	JSON   bool          `name:"json" help:"Print a JSON object for each answer: events, cursor, rescan, complete."`
	capFlag

	begun bool // the first answer was shown
}

func (changesCommand) Help() string {
	return `Without --since it prints a cursor: where you are now. With the cursor of an earlier answer it prints what changed since then,
a line each, and the next cursor at the end. "moved" says from where. What other programs of the host change is told too, where the host can watch for it.

"rescan" in place of changes says that the host does not know all that changed since then: list what you need, and go on with the cursor.

Examples:
  c=$(capd changes project | sed -n 's/^cursor //p')
  capd changes project --since "$c" --wait 30s
  capd changes project --follow --others
  capd changes --follow --json`
}

// changesJSON is an answer as --json prints it.
type changesJSON struct {
	Events   []eventJSON `json:"events"`
	Cursor   string      `json:"cursor"`
	Rescan   bool        `json:"rescan"`
	Complete bool        `json:"complete"`
}

type eventJSON struct {
	Kind    string `json:"kind"`
	Path    string `json:"path"`
	RawPath []byte `json:"rawPath,omitempty"` // in base64, where the path is not UTF-8
	From    string `json:"from,omitempty"`
	RawFrom []byte `json:"rawFrom,omitempty"`
	Own     bool   `json:"own,omitempty"`
	By      string `json:"by,omitempty"`
	At      string `json:"at"`
}

var cursors = base64.RawURLEncoding

func (c *changesCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	if path := trimPath(c.Path); path != "" {
		d = d.SubDir(path)
	}
	q := vfs.ChangesQuery{Wait: c.Wait, Others: c.Others}
	if c.Wait < 0 || c.Wait > vfs.MaxChangesWait {
		return usageError{"--wait is at most 1m"}
	}
	if q.Cursor, err = cursors.DecodeString(c.Since); err != nil {
		return usageError{"--since is not a cursor: capd changes prints them"}
	}
	if !c.Follow {
		page, err := d.Changes(e, q)
		if err != nil {
			return err
		}
		return c.print(e, page)
	}
	for page, err := range d.Follow(e, q) {
		if err != nil {
			return err
		}
		if err := c.print(e, page); err != nil {
			return err
		}
		if err := e.stdout.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (c *changesCommand) print(e *env, page vfs.ChangesPage) error {
	if c.JSON {
		js := changesJSON{Events: []eventJSON{}, Cursor: cursors.EncodeToString(page.Cursor), Rescan: page.Rescan, Complete: page.Complete}
		for _, ev := range page.Events {
			path, from := asName(ev.Path, vfs.FileKind), asName(ev.From, vfs.FileKind)
			js.Events = append(js.Events, eventJSON{ev.Kind.String(), path.Name, path.RawName, from.Name, from.RawName, ev.Own, ev.By, shownTime(ev.AtMs)})
		}
		if c.Follow {
			return json.NewEncoder(e.stdout).Encode(js)
		}
		return printJSON(e.stdout, js)
	}
	switch {
	case page.Rescan && c.Follow && c.Since == "" && !c.begun:
		fmt.Fprintln(e.stderr, "capd: what changes from now on is shown; end with Ctrl-C")
		c.begun = true
	case page.Rescan && (c.Since != "" || c.Follow):
		if _, err := fmt.Fprintln(e.stdout, "rescan"); err != nil {
			return err
		}
	}
	for _, ev := range page.Events {
		line := ev.Kind.String() + " "
		if ev.Kind == vfs.Moved {
			line += vfs.Printable(ev.From) + " -> "
		}
		if line += vfs.Printable(ev.Path); ev.By != "" {
			line += "  [share " + ev.By + "]"
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	if c.Follow {
		return nil
	}
	_, err := fmt.Fprintln(e.stdout, "cursor "+cursors.EncodeToString(page.Cursor))
	return err
}
