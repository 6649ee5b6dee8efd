package console

import (
	"context"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Control controls one route: a grant, or a path below one.
type Control struct {
	cap *vat.Cap
	dir bool
}

func control(caps *vat.Caps, get func() (schema.Control, error)) (*Control, error) {
	w, err := get()
	if err != nil {
		return nil, err
	}
	if w.Which() == schema.Control_Which_dir {
		return &Control{caps.Get(w.Dir()).AddRef(), true}, nil
	}
	return &Control{caps.Get(w.File()).AddRef(), false}, nil
}

// Close releases the control. What it has set remains.
func (c *Control) Close() error {
	c.cap.Release()
	return nil
}

// SetWritable locks (false) or unlocks the route. A lock waits until no change is under
// way, and answers busy if one is stuck.
func (c *Control) SetWritable(ctx context.Context, on bool) error {
	if c.dir {
		return set(ctx, c.cap, schema.DirControl_setWritable, schema.DirControl_setWritable_Params.SetWritable, on)
	}
	return set(ctx, c.cap, schema.FileControl_setWritable, schema.FileControl_setWritable_Params.SetWritable, on)
}

// SetReadable allows or forbids reading and listing over the route.
func (c *Control) SetReadable(ctx context.Context, on bool) error {
	if c.dir {
		return set(ctx, c.cap, schema.DirControl_setReadable, schema.DirControl_setReadable_Params.SetReadable, on)
	}
	return set(ctx, c.cap, schema.FileControl_setReadable, schema.FileControl_setReadable_Params.SetReadable, on)
}

func set[P, R ~capnp.StructKind](ctx context.Context, c *vat.Cap, m vat.Method[P, R], param func(P, bool), on bool) error {
	return wire.Do(ctx, c, m, func(p P, _ *vat.Caps) error {
		param(p, on)
		return nil
	}, nil)
}

// Writable reports what was set on this route, and what is in effect together with all
// routes above.
func (c *Control) Writable(ctx context.Context) (own, effective bool, err error) {
	if c.dir {
		return get(ctx, c.cap, schema.DirControl_getWritable, schema.DirControl_getWritable_Results.Writable)
	}
	return get(ctx, c.cap, schema.FileControl_getWritable, schema.FileControl_getWritable_Results.Writable)
}

// Readable is like Writable, for reading.
func (c *Control) Readable(ctx context.Context) (own, effective bool, err error) {
	if c.dir {
		return get(ctx, c.cap, schema.DirControl_getReadable, schema.DirControl_getReadable_Results.Readable)
	}
	return get(ctx, c.cap, schema.FileControl_getReadable, schema.FileControl_getReadable_Results.Readable)
}

func get[P ~capnp.StructKind, R interface {
	~capnp.StructKind
	Effective() bool
}](ctx context.Context, c *vat.Cap, m vat.Method[P, R], result func(R) bool) (own, effective bool, err error) {
	err = wire.Do(ctx, c, m, nil, func(r R, _ *vat.Caps) error {
		own, effective = result(r), r.Effective()
		return nil
	})
	return own, effective, err
}

// Revoke revokes the route for good.
func (c *Control) Revoke(ctx context.Context) error {
	if c.dir {
		return wire.Do(ctx, c.cap, schema.DirControl_revoke, nil, nil)
	}
	return wire.Do(ctx, c.cap, schema.FileControl_revoke, nil, nil)
}

// Child returns the control of the route to one name below. It answers notDir for the
// control of a file.
func (c *Control) Child(ctx context.Context, name string) (*Control, error) {
	if !c.dir {
		return nil, vfs.Errorf(vfs.NotDir, "this controls a file")
	}
	return wire.Ask(ctx, c.cap, schema.DirControl_getChild, func(p schema.DirControl_getChild_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, func(r schema.DirControl_getChild_Results, caps *vat.Caps) (*Control, error) {
		return control(caps, r.Control)
	})
}
