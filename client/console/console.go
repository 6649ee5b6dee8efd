// Package console is the client of a host's operator: it manages the grants, the mounts
// and their limits.
package console

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"path/filepath"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// Console is a connection to a host's control socket. It is safe for concurrent use.
type Console struct {
	vat *vat.Conn
	cap *vat.Cap
}

// Dial connects to the control socket at path. It answers stale if no host is there,
// and denied if the socket belongs to another user.
func Dial(ctx context.Context, path string) (*Console, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, &vfs.Error{Code: vfs.Denied, Msg: "the state directory " + filepath.Dir(path) + " is another user's, and a host's commands are for its own user; become that user, or name another state directory", Cause: err}
	}
	if err != nil {
		return nil, &vfs.Error{Code: vfs.Stale, Msg: "no host runs with the state directory " + filepath.Dir(path) + "; start one, or name another state directory", Cause: err}
	}
	return New(nc), nil
}

// New is like Dial, but uses the connection nc, which it takes over.
func New(nc net.Conn) *Console {
	c := vat.NewConn(nc, vat.Options{})
	return &Console{c, c.Bootstrap(context.Background())}
}

// Close ends the connection.
func (c *Console) Close() error {
	c.cap.Release()
	return c.vat.Close()
}

// Grant gives guest the node at path ("" for everything). It returns the grant, its
// locator, which is a secret, and its control.
func (c *Console) Grant(ctx context.Context, guest, path string, readOnly bool) (g operator.Grant, locator string, ctl *Control, err error) {
	return c.GrantOn(ctx, guest, path, operator.Terms{ReadOnly: readOnly})
}

// GrantOn is like Grant, with terms.
func (c *Console) GrantOn(ctx context.Context, guest, path string, t operator.Terms) (g operator.Grant, locator string, ctl *Control, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_grant, func(p schema.Console_grant_Params, _ *vat.Caps) error {
		p.SetReadOnly(t.ReadOnly)
		p.SetBeyondDefault(t.BeyondDefault)
		p.SetUses(t.Uses)
		p.SetLinks(t.Links)
		p.SetScratchBytes(t.Scratch)
		p.SetExpiresInMs(wire.InMilliseconds(t.Expires))
		p.SetUnusedMs(wire.InMilliseconds(t.Unused))
		if t.Rights != 0 {
			if err := wire.SetRights(t.Rights, p.NewRights); err != nil {
				return err
			}
		}
		return errors.Join(p.SetGuest(guest), p.SetPath(path), p.SetRoot(t.Root), wire.SetLimits(t.Limits, p.NewLimits))
	}, func(r schema.Console_grant_Results, caps *vat.Caps) error {
		if g, err = wire.One(wire.Grant)(r.Grant()); err != nil {
			return err
		}
		if locator, err = r.Locator(); err != nil {
			return err
		}
		ctl, err = control(caps, r.Control)
		return err
	})
	return g, locator, ctl, err
}

// Grants returns every grant, oldest first.
func (c *Console) Grants(ctx context.Context) ([]operator.Grant, error) {
	out := []operator.Grant{}
	for more, after := true, ""; more; {
		err := wire.Do(ctx, c.cap, schema.Console_list, func(p schema.Console_list_Params, _ *vat.Caps) error {
			return p.SetAfter(after)
		}, func(r schema.Console_list_Results, _ *vat.Caps) error {
			page, err := wire.All(wire.Grant)(r.Grants())
			if more = r.More() && len(page) > 0; more {
				after = page[len(page)-1].ID
			}
			out = append(out, page...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Revoke revokes every grant of guest, or the one with that id, and all that was shared
// from it. It counts only the grants that were named.
func (c *Console) Revoke(ctx context.Context, guest string) (int, error) {
	return counted(ctx, c.cap, schema.Console_revoke, func(p schema.Console_revoke_Params) error {
		return p.SetGuest(guest)
	})
}

// SetWritable locks or unlocks every grant of guest, or the one with that id, and
// counts them.
func (c *Console) SetWritable(ctx context.Context, guest string, on bool) (int, error) {
	return counted(ctx, c.cap, schema.Console_setWritable, func(p schema.Console_setWritable_Params) error {
		p.SetWritable(on)
		return p.SetGuest(guest)
	})
}

// SetLimits changes limits of every grant of guest, or of the one with that id, and
// counts the grants. Limits that l does not name stay as they are.
func (c *Console) SetLimits(ctx context.Context, guest string, l meter.Limits) (int, error) {
	return counted(ctx, c.cap, schema.Console_setLimits, func(p schema.Console_setLimits_Params) error {
		return errors.Join(p.SetGuest(guest), wire.SetLimits(l, p.NewLimits))
	})
}

// Control returns the control of one grant.
func (c *Console) Control(ctx context.Context, id string) (*Control, error) {
	return wire.Ask(ctx, c.cap, schema.Console_control, func(p schema.Console_control_Params, _ *vat.Caps) error {
		return p.SetId(id)
	}, func(r schema.Console_control_Results, caps *vat.Caps) (*Control, error) {
		return control(caps, r.Control)
	})
}

// Status returns what the host holds now. With collect, the host first collects
// garbage.
func (c *Console) Status(ctx context.Context, collect bool) (operator.Status, error) {
	return wire.Ask(ctx, c.cap, schema.Console_status, func(p schema.Console_status_Params, _ *vat.Caps) error {
		p.SetCollect(collect)
		return nil
	}, func(r schema.Console_status_Results, _ *vat.Caps) (operator.Status, error) {
		return wire.One(wire.Status)(r.Status())
	})
}

// Help returns the host's description of a Console, or of one of its methods.
func (c *Console) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, c.cap, schema.Console_help, method)
}
