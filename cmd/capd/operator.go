package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"capd/authority"
	"capd/client/console"
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
	stateFlag
}

func (grantCommand) Help() string {
	return `The locator is printed once and kept nowhere. A guest may have several grants.

Examples:
  capd grant reviewer --path project --read-only
  CAPD_CAP=$(capd grant builder --path project) capd ls`
}

func (c *grantCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	_, loc, ctl, err := con.Grant(e, c.Guest, trimPath(c.Path), c.ReadOnly)
	if err != nil {
		return err
	}
	defer ctl.Close()
	fmt.Fprintln(e.stdout, loc)
	return nil
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
