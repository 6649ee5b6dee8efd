package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Control is what a host does about one route: a grant, or a path below one.
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

// Close lets go of the control; what it has set stays set.
func (c *Control) Close() error {
	c.cap.Release()
	return nil
}

// SetWritable locks (false) or unlocks the route. A lock answers when no change
// is under way any more; busy when one is stuck.
func (c *Control) SetWritable(ctx context.Context, on bool) error {
	if c.dir {
		return wire.Decode(vat.Do(ctx, c.cap, schema.DirControl_setWritable, func(p schema.DirControl_setWritable_Params, _ *vat.Caps) error {
			p.SetWritable(on)
			return nil
		}, nil))
	}
	return wire.Decode(vat.Do(ctx, c.cap, schema.FileControl_setWritable, func(p schema.FileControl_setWritable_Params, _ *vat.Caps) error {
		p.SetWritable(on)
		return nil
	}, nil))
}

// SetReadable allows or forbids looking.
func (c *Control) SetReadable(ctx context.Context, on bool) error {
	if c.dir {
		return wire.Decode(vat.Do(ctx, c.cap, schema.DirControl_setReadable, func(p schema.DirControl_setReadable_Params, _ *vat.Caps) error {
			p.SetReadable(on)
			return nil
		}, nil))
	}
	return wire.Decode(vat.Do(ctx, c.cap, schema.FileControl_setReadable, func(p schema.FileControl_setReadable_Params, _ *vat.Caps) error {
		p.SetReadable(on)
		return nil
	}, nil))
}

// Writable reports what was set here, and what holds with all routes above.
func (c *Control) Writable(ctx context.Context) (own, effective bool, err error) {
	if c.dir {
		err = vat.Do(ctx, c.cap, schema.DirControl_getWritable, nil, func(r schema.DirControl_getWritable_Results, _ *vat.Caps) error {
			own, effective = r.Writable(), r.Effective()
			return nil
		})
	} else {
		err = vat.Do(ctx, c.cap, schema.FileControl_getWritable, nil, func(r schema.FileControl_getWritable_Results, _ *vat.Caps) error {
			own, effective = r.Writable(), r.Effective()
			return nil
		})
	}
	return own, effective, wire.Decode(err)
}

// Readable is as Writable.
func (c *Control) Readable(ctx context.Context) (own, effective bool, err error) {
	if c.dir {
		err = vat.Do(ctx, c.cap, schema.DirControl_getReadable, nil, func(r schema.DirControl_getReadable_Results, _ *vat.Caps) error {
			own, effective = r.Readable(), r.Effective()
			return nil
		})
	} else {
		err = vat.Do(ctx, c.cap, schema.FileControl_getReadable, nil, func(r schema.FileControl_getReadable_Results, _ *vat.Caps) error {
			own, effective = r.Readable(), r.Effective()
			return nil
		})
	}
	return own, effective, wire.Decode(err)
}

// Revoke takes the route back for good.
func (c *Control) Revoke(ctx context.Context) error {
	if c.dir {
		return wire.Decode(vat.Do(ctx, c.cap, schema.DirControl_revoke, nil, nil))
	}
	return wire.Decode(vat.Do(ctx, c.cap, schema.FileControl_revoke, nil, nil))
}

// Child controls the route to one name below. notDir for a file's control.
func (c *Control) Child(ctx context.Context, name string) (child *Control, err error) {
	if !c.dir {
		return nil, vfs.Errorf(vfs.NotDir, "this controls a file")
	}
	err = vat.Do(ctx, c.cap, schema.DirControl_getChild, func(p schema.DirControl_getChild_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, func(r schema.DirControl_getChild_Results, caps *vat.Caps) error {
		child, err = control(caps, r.Control)
		return err
	})
	return child, wire.Decode(err)
}
