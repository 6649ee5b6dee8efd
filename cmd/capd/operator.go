package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"capd/client/console"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// console connects to the running host.
func (f stateFlag) console(e *env) (*console.Console, error) {
	st, err := f.open()
	if err != nil {
		return nil, err
	}
	con, err := console.Dial(e, st.Control())
	if err == nil {
		e.opened = append(e.opened, con)
	}
	return con, err
}

type grantCommand struct {
	Guest    string  `arg:"" help:"The guest: NAME of an agent's run, or KIND:NAME, such as person:ada."`
	Path     string  `placeholder:"P" help:"What to give it, such as project/docs (default: everything)."`
	Root     string  `placeholder:"ID" help:"Give it this root, or P in what it gets of the root; see capd roots."`
	ReadOnly bool    `help:"Give it for reading only: without the rights write, delete and move."`
	Rights   rights  `placeholder:"R,…" help:"Give only these rights, of read, write, delete, list, move, archive, watch, metadata, link (default: all but link, or what is usual in the root)."`
	Links    bool    `help:"Let it make links that stay within what it is given: the right link, besides its other rights."`
	Beyond   bool    `name:"beyond-default" help:"Give what is asked for even where the defaults of a root do not."`
	Scratch  size    `placeholder:"SIZE" help:"Give it a directory beside the workspace, in which it may keep this much for itself, such as 1GiB; see capd scratch."`
	Expires  span    `placeholder:"T" help:"End it after this time, such as 2h or 7d."`
	Unused   span    `placeholder:"T" help:"End it when no connection has used it for this time."`
	Uses     uses    `placeholder:"N" help:"How often its locator may be used to connect (default: any number of times)."`
	Limit    []limit `sep:"none" placeholder:"KIND=N" help:"How much of one kind it may hold, such as storedBytes=64MiB; none for no limit. May be repeated."`
	JSON     bool    `name:"json" help:"Print a JSON object: the grant, and its locators, each with the way to connect."`
	Via      string  `default:"unix" placeholder:"WAY" help:"How the guest connects: unix (this machine, the default), tls, tls:HOST:PORT, or all."`
	stateFlag
}

func (grantCommand) Help() string {
	return `The locator is printed once and stored nowhere; if it cannot be printed, the grant is revoked. A
guest may have several grants. If --via names several ways to connect, there is one line for each,
the Unix socket first; all are the same grant.

A guest's name has letters, digits and . _ -. Before it may stand what the guest is: agent-run, person,
extension, automation or core. NAME alone is the same as agent-run:NAME, here and in every other command.

docs/semantics.md says which operation needs which right. Whoever holds a directory can open what is
in it and so learn whether a name exists, whatever rights are missing.

capd limit --help lists the kinds for --limit; capd limit changes limits later. A kind that is not
named gets its limit from guestLimits in the configuration.

Examples:
  capd grant reviewer --path project --read-only
  capd grant sender --path inbox --rights write,list
  capd grant visitor --read-only --expires 2h --uses 1
  capd grant person:ada --path project
  capd grant builder --path project --links
  capd grant extension:lint --root plugins
  capd grant builder --root project --scratch 1GiB
  capd grant builder --limit storedBytes=1GiB --limit connections=4
  capd grant reviewer --via tls
  capd grant reviewer --json | jq -r '.locators[0].locator'
  CAPD_CAP=$(capd grant builder --path project) capd ls`
}

func (c *grantCommand) Run(e *env) error {
	if err := e.stdout.open(); err != nil {
		return err
	}
	limits, err := limitsOf(c.Limit)
	if err != nil {
		return err
	}
	con, err := c.console(e)
	if err != nil {
		return err
	}
	unix, ways, err := waysOf(c.stateFlag, c.Via)
	if err != nil {
		return err
	}
	// An interrupt here would leave a grant whose locator nobody has.
	ctx, cancel := e.uninterrupted()
	defer cancel()
	g, text, ctl, err := con.GrantOn(ctx, c.Guest, trimPath(c.Path), operator.Terms{
		Root: c.Root, ReadOnly: c.ReadOnly, Rights: membrane.Rights(c.Rights), Links: c.Links, BeyondDefault: c.Beyond, Scratch: int64(c.Scratch), Limits: limits,
		Expires: time.Duration(c.Expires), Unused: time.Duration(c.Unused), Uses: int64(c.Uses),
	})
	if err != nil {
		return err
	}
	defer ctl.Close()
	return e.deliver(g.ID, ctl.Revoke, func() error {
		all, err := located(text, unix, ways)
		if err != nil {
			return err
		}
		return printLocated(e, c.JSON, all, struct {
			operator.Grant
			Locators []locatedJSON `json:"locators"`
		}{g, all})
	})
}

type grantsCommand struct {
	All  bool `help:"Show revoked and expired grants too."`
	JSON bool `name:"json" help:"Print a JSON array, oldest first."`
	stateFlag
}

func (grantsCommand) Help() string {
	return `A grant that a guest shared is called GUEST/1, GUEST/2 and so on, and ends with its parent.
Revoked and expired grants are shown only with --all. ROOT is the root that a grant is in, and SOURCE who gave it: operator
(capd grant), serve, config, approval (of a request), or what an invitation gave without asking (manifest, conversation,
core).

Examples:
  capd grants
  capd grants --all
  capd grants --json | jq -r '.[] | select(.state == "active") | .id'`
}

func (c *grantsCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	gs, err := con.Grants(e)
	if err != nil {
		return err
	}
	if !c.All {
		gs = slices.DeleteFunc(gs, func(g operator.Grant) bool { return g.State == operator.Revoked || g.State == operator.Expired })
	}
	return printList(e, c.JSON, gs, "GUEST\tID\tPATH\tMODE\tSTATE\tPARENT\tROOT\tSOURCE", func(g operator.Grant) string {
		path := cmp.Or(shownPath(g.Path), "(everything)")
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", g.Guest, g.ID, path, mayDo(g), stateOf(g), g.Parent, g.Root, g.Source)
	})
}

// printList prints a list as JSON, or as a table with a line for each element.
func printList[T any](e *env, asJSON bool, all []T, head string, line func(T) string) error {
	if asJSON {
		return printJSON(e.stdout, append([]T{}, all...)) // a list without elements is [] and not null
	}
	w := newColumns(e.stdout)
	fmt.Fprintln(w, head)
	for _, one := range all {
		fmt.Fprintln(w, line(one))
	}
	return w.Flush()
}

func printJSON(w io.Writer, v any) error {
	enc := newEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// newEncoder returns an encoder of JSON that is safe on a terminal.
func newEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(printable{w})
	enc.SetEscapeHTML(false)
	return enc
}

// printable writes JSON, a whole value with each call, as [vfs.PrintableJSON] has it.
type printable struct{ w io.Writer }

func (p printable) Write(text []byte) (int, error) {
	if _, err := p.w.Write(vfs.PrintableJSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

type revokeCommand struct {
	Guest string `arg:"" help:"The guest's name, or a grant's id."`
	stateFlag
}

func (revokeCommand) Help() string {
	return `Everything that was derived from the grants is revoked with them, at once. After the command has
succeeded, nothing changes through them any more. The invitations of the guest end too (capd invite), and are
counted with the grants.

Examples:
  capd revoke reviewer
  capd revoke g3`
}

func (c *revokeCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	n, err := con.Revoke(e, c.Guest)
	if err != nil {
		return err
	}
	if n == 0 {
		e.result("%s was revoked already", c.Guest)
		return nil
	}
	e.result("revoked %s of %s", count(n, "grant"), c.Guest)
	return nil
}

type setWritableCommand struct {
	Guest    string `arg:"" help:"The guest's name, or a grant's id."`
	Writable string `arg:"" enum:"true,false" help:"true or false."`
	stateFlag
}

func (setWritableCommand) Help() string {
	return `false locks: every write answers readOnly at once. true unlocks; a read-only grant stays read-only.

Examples:
  capd set-writable builder false
  capd set-writable builder true`
}

func (c *setWritableCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	on := c.Writable == "true"
	n, err := con.SetWritable(e, c.Guest, on)
	if err != nil {
		return err
	}
	word := "locked"
	if on {
		word = "unlocked"
	}
	e.result("%s %s of %s", word, count(n, "grant"), c.Guest)
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprint(n, " ", what, "s")
}
