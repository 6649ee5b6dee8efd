package main

import (
	"context"
	"fmt"
	"strings"

	"capd/client"
	"capd/vfs"
)

type requestCommand struct {
	Root   string `arg:"" optional:"" help:"What to ask for: the id of a root, or ID/PATH. Without it what can be asked for is listed."`
	Rights rights `placeholder:"R,…" help:"The rights to ask for, of read, write, delete, list, move, archive, watch, metadata, link (default: read,list,metadata)."`
	Reason string `placeholder:"TEXT" help:"What it is for; whoever decides reads it."`
	File   bool   `help:"Ask for a file, and not for a directory."`
	JSON   bool   `name:"json" help:"Print a JSON object, or an array of what can be asked for."`
	capFlag
}

func (requestCommand) Help() string {
	return `Asks with the locator of an invitation (capd invite) for a part of the host, waits until somebody at the host has
decided, at most two minutes, and prints a locator for what was given. It may have fewer rights than were asked for.

The request stays when the command ends. The same request gets the decision within 10 minutes after it.

Examples:
  capd request                                            what can be asked for
  capd request project --reason 'to review it'
  capd request project/docs --rights read,write,list --reason 'to fix typos'
  CAPD_CAP=$(capd request notes/todo.md --file) capd cat`
}

// requestedJSON is what was given, as --json prints it.
type requestedJSON struct {
	Root    string        `json:"root"`
	Rights  client.Rights `json:"rights"` // which may be less than was asked for
	Locator string        `json:"locator"`
}

func (c *requestCommand) Run(e *env) error {
	if err := e.stdout.open(); err != nil {
		return err
	}
	text, err := c.locator()
	if err != nil {
		return err
	}
	conn, err := client.Dial(e, text)
	if err != nil {
		return c.origin(err)
	}
	e.opened = append(e.opened, conn)
	p := conn.Petitioner(e)
	defer p.Close()
	if c.Root == "" {
		return c.list(e, p)
	}
	want := client.Rights(c.Rights)
	if want == 0 {
		want = client.Read | client.List | client.Metadata
	}
	root := strings.TrimSuffix(c.Root, "/")
	if c.File {
		return granted(e, c, conn, p.RequestFile(e, root, want, c.Reason))
	}
	return granted(e, c, conn, p.RequestDir(e, root, want, c.Reason))
}

// list prints what can be asked for.
func (c *requestCommand) list(e *env, p *client.Petitioner) error {
	if c.Rights != 0 || c.Reason != "" || c.File {
		return usageError{"ask for what? name a root; capd request alone lists those that there are"}
	}
	all, err := p.Roots(e)
	if err != nil {
		return c.origin(err)
	}
	if len(all) == 0 {
		fmt.Fprintln(e.stderr, "capd: nothing can be asked for here: the host has no roots for you")
	}
	return printList(e, c.JSON, all, "ID\tKIND\tNAME\tRIGHTS\tWITHOUT ASKING", func(o client.Offer) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", o.ID, o.Kind, vfs.Printable(o.Name), o.Rights, o.Granted)
	})
}

// granted waits for what was asked for, and prints a locator for it.
func granted[N capability[N]](e *env, c *requestCommand, conn *client.Conn, n N) error {
	done := e.waiting("for a decision at the host; the request stays if you end this with Ctrl-C")
	has, err := n.Rights(e)
	done()
	if err != nil {
		return c.origin(err)
	}
	if less := client.Rights(c.Rights) &^ has; less != 0 {
		fmt.Fprintf(e.stderr, "capd: less was given than was asked for: not %s\n", less)
	}
	ctx, cancel := e.uninterrupted()
	defer cancel()
	loc, r, err := conn.Share(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	return e.deliver("", func(ctx context.Context) error { return r.Revoke(ctx) }, func() error {
		if c.JSON {
			return printJSON(e.stdout, requestedJSON{c.Root, has, loc})
		}
		_, err := fmt.Fprintln(e.stdout, loc)
		return err
	})
}
