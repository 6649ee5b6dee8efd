package membrane

import (
	"cmp"
	"context"
	"strings"

	"capd/meter"
	"capd/vfs"
)

// History knows what was changed through the capabilities of a tree. A guard has it.
type History interface {
	History(ctx context.Context, at Holder, q vfs.PastQuery) (vfs.PastPage, error)
	Undo(ctx context.Context, at Holder, w vfs.Undo) (vfs.Undone, error)
	Past(ctx context.Context, at Holder, path string, v vfs.Version) (vfs.Content, error)
}

// Holder is who asks a History.
type Holder struct {
	Dir  vfs.Dir      // the view through which it asks, and which decides what it may
	By   *meter.Meter // of the capability
	Path string       // of Dir, from the root of the tree
	Turn string       // see [InTurn]

	v *dirView
}

// MayRead answers why the holder may not read what is at path below its directory, by its rights and by what policy says now, of the
// tree and of the trees that it is composed of. Nothing need be there. It answers askDenied if a rule asks before reads there: nobody is asked
// about what is not there any more.
func (h Holder) MayRead(ctx context.Context, path string) error {
	return (&Holding{ctx: ctx, reads: true}).In(h.v, []Op{{Kind: OpReplace, Path: path}})
}

// readable is what a Holding that reads asks v.
func (v *dirView) readable(h *Holding, ops []Op) error {
	for _, op := range ops {
		t := target{view: &v.view, path: v.path, rules: v.standing(), need: noRead}
		if op.Path != "" {
			for name := range strings.SplitSeq(op.Path, "/") {
				if t.rules = t.rules.step(name); v.guards.hides(t.rules) {
					return vfs.Denied
				}
			}
			t.path = vfs.Join(v.path, op.Path)
		}
		if err := cmp.Or(t.refused(h.ctx), t.rules.refuse(noRead, Asks)); err != nil {
			return err
		}
		if op.Path == "" {
			return nil
		}
	}
	err := h.In(v.dir, ops)
	switch vfs.CodeOf(err) {
	case vfs.Busy, vfs.ReadOnly: // nothing is mounted there any more, or something else is
		return vfs.Denied
	}
	return err
}

// MayWatch answers why the holder may not be told of what changes at path below its directory, by its rights and by what policy says now
// of the tree. What the trees that it is composed of withhold, they do not tell.
func (h Holder) MayWatch(ctx context.Context, path string) error {
	r, full := h.v.standing(), h.v.path
	for name := range strings.SplitSeq(path, "/") {
		if r = r.step(name); h.v.guards.hides(r) {
			return vfs.Denied
		}
	}
	return target{view: &h.v.view, path: vfs.Join(full, path), rules: r, need: noWatch}.refused(ctx)
}

// Stands answers stale if the holder's directory is not where it was any more. It needs no right.
func (h Holder) Stands(ctx context.Context) error {
	_, err := h.v.stat(ctx)
	return err
}

func (v *dirView) holder() (Holder, History, error) {
	if v.guards.history == nil || v.base.meter == nil {
		return Holder{}, nil, vfs.Errorf(vfs.Unsupported, "this host keeps no history of changes")
	}
	return Holder{Dir: v, By: v.base.meter, Path: v.path, Turn: v.turn, v: v}, v.guards.history, nil
}

// History implements [vfs.Historian].
func (v *dirView) History(ctx context.Context, q vfs.PastQuery) (page vfs.PastPage, err error) {
	if err := v.may(ctx, noRead); err != nil {
		return page, err
	}
	at, h, err := v.holder()
	if err == nil {
		page, err = h.History(ctx, at, q)
	}
	if late := v.may(ctx, noRead); late != nil {
		err = late
	}
	if err != nil {
		return vfs.PastPage{}, err
	}
	v.note(OpList)
	return page, nil
}

// Undo implements [vfs.Historian]. What it changes passes v as any change does.
func (v *dirView) Undo(ctx context.Context, w vfs.Undo) (done vfs.Undone, err error) {
	if err := v.may(ctx, noRead); err != nil {
		return done, err
	}
	at, h, err := v.holder()
	if err != nil {
		return done, err
	}
	return h.Undo(ctx, at, w)
}

// Past implements [vfs.Historian].
func (v *dirView) Past(ctx context.Context, path string, version vfs.Version) (vfs.Content, error) {
	at, h, err := v.holder()
	if err == nil {
		_, err = vfs.SplitPath(path)
	}
	if err == nil {
		err = at.MayRead(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	c, err := h.Past(ctx, at, path, version)
	if late := at.MayRead(ctx, path); late != nil {
		if err == nil {
			c.Close()
		}
		return nil, late
	}
	if err == nil {
		v.note(OpRead)
	}
	return c, err
}

// InTurn returns d, where what is changed through it belongs to the turn with this name, for history. The name is at most 256
// bytes of UTF-8. Revoking d revokes the result.
func InTurn(d vfs.Dir, turn string) (vfs.Dir, error) {
	v, err := viewOf[*dirView](d)
	if err != nil {
		return nil, err
	}
	if err := vfs.CheckTurn(turn); err != nil {
		return nil, err
	}
	in, err := v.derived(v.base, v.mask)
	if err == nil {
		in.(*dirView).turn = turn
	}
	return in, err
}

// Turn returns the turn that the change belongs to; "" for none.
func (o Op) Turn() string {
	if len(o.targets) == 0 {
		return ""
	}
	return o.targets[0].view.turn
}
