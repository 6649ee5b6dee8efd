package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"capd/client"
	"capd/meter"
	"capd/vfs"
)

// uses is a flag that says how often a locator can be used, above 0.
type uses int64

// UnmarshalText reads a decimal number.
func (u *uses) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return usageError{"--uses is a number from 1, such as --uses 1; leave it out for any number of times"}
	}
	*u = uses(n)
	return nil
}

type attenuateCommand struct {
	ReadOnly bool    `help:"Take away the right to change anything: write, delete and move."`
	Rights   rights  `placeholder:"R,…" help:"Keep only these rights, of read, write, delete, list, move, archive, watch, metadata, link."`
	Path     string  `placeholder:"P" help:"Give only what is at this path."`
	Expires  span    `placeholder:"T" help:"End it after this time, such as 2h or 7d."`
	Unused   span    `placeholder:"T" help:"End it when no connection has used it for this time."`
	Uses     uses    `placeholder:"N" help:"How often the locator may be used to connect (default: any number of times)."`
	Limit    []limit `sep:"none" placeholder:"KIND=N" help:"How much may be stored through it: storedBytes=64MiB or storedNodes=1000. May be repeated."`
	List     bool    `xor:"do" help:"List what was made of the capability, or of what is at --path, and still works."`
	Revoke   string  `xor:"do" placeholder:"ID" help:"Take one of those back, with everything made of it."`
	JSON     bool    `name:"json" help:"Print a JSON object; with --list an array, oldest first."`
	capFlag
}

func (attenuateCommand) Help() string {
	return `The new locator ends with the one that it was made from, and can never do more. If it cannot be
printed, it is revoked.

--list and --revoke show and take back what was made of the same capability, by whatever program, and
what was made of that in turn. Its ID is printed with --json and by --list.

Examples:
  capd attenuate --read-only --path project/docs
  capd attenuate --rights read,list --path project
  capd attenuate --expires 2h --uses 1 --limit storedBytes=64MiB
  CAPD_CAP=$(capd attenuate --read-only) some-agent
  capd attenuate --read-only --json | jq -r .locator
  capd attenuate --list
  capd attenuate --revoke 2`
}

// attenuatedJSON is a new locator, as --json prints it.
type attenuatedJSON struct {
	ID       string        `json:"id"` // for --revoke
	Path     string        `json:"path"`
	ReadOnly bool          `json:"readOnly"` // as asked for
	Rights   client.Rights `json:"rights"`
	Locator  string        `json:"locator"`
}

func (c *attenuateCommand) Run(e *env) error {
	switch {
	case c.List:
		return c.list(e)
	case c.Revoke != "":
		return c.revoke(e)
	}
	return c.make(e)
}

func (c *attenuateCommand) make(e *env) error {
	terms, err := c.terms()
	if err != nil {
		return err
	}
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
	id, loc, r, err := conn.ShareOn(ctx, n, terms)
	if err != nil {
		return err
	}
	defer r.Close()
	return e.deliver("", r.Revoke, func() error {
		if c.JSON {
			return printJSON(e.stdout, attenuatedJSON{id, path, c.ReadOnly, has, loc})
		}
		_, err := fmt.Fprintln(e.stdout, loc)
		return err
	})
}

// terms reads the terms of the new locator. Only what is stored is limited: the rest is shared with whoever makes it.
func (c *attenuateCommand) terms() (t client.ShareTerms, err error) {
	limits, err := limitsOf(c.Limit)
	if err != nil {
		return t, err
	}
	for k, n := range limits {
		if k != meter.StoredBytes && k != meter.StoredNodes {
			return t, usageError{fmt.Sprintf("%s is not limited here; limit storedBytes or storedNodes", k)}
		}
		if n == meter.NoLimit {
			delete(limits, k)
		}
	}
	return client.ShareTerms{
		Expires: time.Duration(c.Expires), Unused: time.Duration(c.Unused), Uses: int64(c.Uses),
		StoredBytes: limits[meter.StoredBytes], StoredNodes: limits[meter.StoredNodes],
	}, nil
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
