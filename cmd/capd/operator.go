package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"capd/authority"
	"capd/client/console"
	"capd/locator"
	"capd/vfs"
)

// console connects to the running host.
func (f stateFlag) console(e *env) (*console.Console, error) {
	st, err := f.open()
	if err != nil {
		return nil, err
	}
	return console.Dial(e, st.control())
}

type grantCommand struct {
	Guest    string `arg:"" help:"The guest's name: letters, digits and . _ -"`
	Path     string `placeholder:"P" help:"What to give it, such as project/docs (default: everything)."`
	ReadOnly bool   `help:"Give it for reading only."`
	Via      string `default:"unix" placeholder:"WAY" help:"How the guest comes: unix (this machine, the default), tls, tls:HOST:PORT, or all."`
	stateFlag
}

func (grantCommand) Help() string {
	return `The locator is printed once and kept nowhere. A guest may have several grants. Where --via names
several ways, there is one line for each, the Unix socket first; all are the same grant.

Examples:
  capd grant reviewer --path project --read-only
  capd grant reviewer --via tls
  CAPD_CAP=$(capd grant builder --path project) capd ls`
}

func (c *grantCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	unix, ways, err := c.ways()
	if err != nil {
		return err
	}
	_, text, ctl, err := con.Grant(e, c.Guest, trimPath(c.Path), c.ReadOnly)
	if err != nil {
		return err
	}
	defer ctl.Close()
	loc, err := locator.Parse(text)
	if err != nil {
		return err
	}
	if unix {
		fmt.Fprintln(e.stdout, loc)
	}
	for _, w := range ways {
		fmt.Fprintln(e.stdout, w.locator(loc.Secret))
	}
	return nil
}

// ways returns what --via names, of the ways in that the running host has.
func (c *grantCommand) ways() (unix bool, ways []way, err error) {
	if c.Via == "unix" {
		return true, nil, nil
	}
	st, err := c.open()
	if err != nil {
		return false, nil, err
	}
	all, err := st.readWays()
	if err != nil || c.Via == "all" {
		return true, all, err
	}
	have := []string{"unix"}
	for _, w := range all {
		if c.Via == "tls" || c.Via == w.String() {
			ways = append(ways, w)
		}
		have = append(have, w.String())
	}
	if len(ways) == 0 {
		return false, nil, vfs.Errorf(vfs.NotFound, "the host has no such way in; it has %s (see capd serve --listen)", strings.Join(have, ", "))
	}
	return false, ways, nil
}

type grantsCommand struct {
	JSON bool `name:"json" help:"Print a JSON array, oldest first."`
	stateFlag
}

func (grantsCommand) Help() string {
	return `A grant that a guest shared is called GUEST/1, GUEST/2 and so on, and dies with its parent.

Examples:
  capd grants
  capd grants --json | jq -r '.[] | select(.state == "active") | .id'`
}

// grantJSON is a grant as --json prints it.
type grantJSON struct {
	Guest  string          `json:"guest"`
	ID     string          `json:"id"`
	Path   string          `json:"path"`
	Mode   authority.Mode  `json:"mode"`
	State  authority.State `json:"state"`
	Parent string          `json:"parent"`
}

func (c *grantsCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	gs, err := con.Grants(e)
	if err != nil {
		return err
	}
	if c.JSON {
		out := make([]grantJSON, len(gs))
		for i, g := range gs {
			out[i] = grantJSON(g)
		}
		return printJSON(e.stdout, out)
	}
	w := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GUEST\tID\tPATH\tMODE\tSTATE\tPARENT")
	for _, g := range gs {
		path := "(everything)"
		if g.Path != "" {
			path = vfs.Printable(g.Path)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", g.Guest, g.ID, path, g.Mode, g.State, g.Parent)
	}
	return w.Flush()
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

type revokeCommand struct {
	Guest string `arg:"" help:"The guest's name, or a grant's id."`
	stateFlag
}

func (revokeCommand) Help() string {
	return `Everything that was derived from the grants dies with them, at once, and nothing changes through
them once the command has ended well.

Examples:
  capd revoke reviewer
  capd revoke g3`
}

func (c *revokeCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	n, err := con.Revoke(e, c.Guest)
	if err != nil {
		return err
	}
	if n == 0 {
		fmt.Fprintf(e.stdout, "%s was revoked already\n", c.Guest)
		return nil
	}
	fmt.Fprintf(e.stdout, "revoked %s of %s\n", count(n, "grant"), c.Guest)
	return nil
}

type setWritableCommand struct {
	Guest    string `arg:"" help:"The guest's name, or a grant's id."`
	Writable string `arg:"" enum:"true,false" help:"true or false."`
	stateFlag
}

func (setWritableCommand) Help() string {
	return `false: every write answers readOnly, at once. true: undoes that; what was granted read-only stays so.

Examples:
  capd set-writable builder false
  capd set-writable builder true`
}

func (c *setWritableCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	on := c.Writable == "true"
	n, err := con.SetWritable(e, c.Guest, on)
	if err != nil {
		return err
	}
	word := "locked"
	if on {
		word = "unlocked"
	}
	fmt.Fprintf(e.stdout, "%s %s of %s\n", word, count(n, "grant"), c.Guest)
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}
