package main

import (
	"context"
	"fmt"

	"capd/client"
	"capd/vfs"
)

type attenuateCommand struct {
	ReadOnly bool   `help:"Take away the right to change anything: write, delete and move."`
	Rights   rights `placeholder:"R,…" help:"Keep only these rights, of read, write, delete, list, move, archive, watch, metadata."`
	Path     string `placeholder:"P" help:"Give only what is at this path."`
	JSON     bool   `name:"json" help:"Print a JSON object."`
	capFlag
}

func (attenuateCommand) Help() string {
	return `The new locator ends with the one that it was made from, and can never do more. If it cannot be
printed, it is revoked.

Examples:
  capd attenuate --read-only --path project/docs
  capd attenuate --rights read,list --path project
  CAPD_CAP=$(capd attenuate --read-only) some-agent
  capd attenuate --read-only --json | jq -r .locator`
}

// attenuatedJSON is a new locator, as --json prints it.
type attenuatedJSON struct {
	Path     string        `json:"path"`
	ReadOnly bool          `json:"readOnly"` // as asked for
	Rights   client.Rights `json:"rights"`
	Locator  string        `json:"locator"`
}

func (c *attenuateCommand) Run(e *env) error {
	if err := e.stdout.open(); err != nil {
		return err
	}
	path := trimPath(c.Path)
	conn, n, err := c.node(e, path, true)
	if err != nil {
		return err
	}
	ctx, cancel := e.uninterrupted()
	defer cancel()
	n, has, err := c.narrow(ctx, n)
	if err != nil {
		return err
	}
	loc, r, err := conn.Share(ctx, n)
	if err != nil {
		return err
	}
	defer r.Close()
	return e.deliver("", r.Revoke, func() error {
		if c.JSON {
			return printJSON(e.stdout, attenuatedJSON{path, c.ReadOnly, has, loc})
		}
		_, err := fmt.Fprintln(e.stdout, loc)
		return err
	})
}

// narrow returns n with the rights that are to be kept, and those that it then has. If all
// are to be kept, it asks the host only if they are to be printed.
func (c *attenuateCommand) narrow(ctx context.Context, n vfs.Node) (vfs.Node, client.Rights, error) {
	switch n := n.(type) {
	case *client.Dir:
		return narrowed(ctx, c, n)
	case *client.File:
		return narrowed(ctx, c, n)
	}
	return nil, 0, vfs.NotRegular
}

// capability is a Dir or a File.
type capability[N any] interface {
	vfs.Node
	ReadOnly() N
	Narrow(client.Rights) N
	Rights(context.Context) (client.Rights, error)
}

func narrowed[N capability[N]](ctx context.Context, c *attenuateCommand, n N) (vfs.Node, client.Rights, error) {
	if c.ReadOnly {
		n = n.ReadOnly()
	}
	if c.Rights != 0 {
		n = n.Narrow(client.Rights(c.Rights))
	}
	if c.Rights == 0 && !c.JSON {
		return n, 0, nil
	}
	has, err := n.Rights(ctx)
	if err == nil && has == 0 {
		err = vfs.Errorf(vfs.Invalid, "no right would be left: the capability has none of those to keep; name others")
	}
	return n, has, err
}
