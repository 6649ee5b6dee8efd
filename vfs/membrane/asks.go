package membrane

import (
	"cmp"
	"context"

	"capd/vfs"
)

// whys calls f with each reason why a change of targets needs an approval, until f returns an error.
func whys(targets []target, f func(why string) error) error {
	for _, t := range targets {
		g := t.view.guards
		for i, why := range g.asking {
			at := t.rules.at[g.hiding+i]
			if !at.Matched() {
				continue
			}
			if err := f(why(at)); err != nil {
				return err
			}
		}
		if why := t.why(); why != "" {
			if err := f(why); err != nil {
				return err
			}
		}
	}
	return nil
}

// asks reports whether op, which changes targets, needs an approval. A change for which [Hold] was asked was approved then.
// It asks for the approval, unless a guard of v may be the one that can be asked: that is known when it runs; see askFirst. It
// returns an error if there can be no approval.
func (v *view) asks(ctx context.Context, op Op, targets ...target) (needed bool, err error) {
	now := vfs.Answered(ctx) || len(v.guards.arounds) == 0
	err = whys(targets, func(why string) error {
		needed = true
		if !now || v.guards.asked(ctx, op) {
			return nil
		}
		return vfs.Asks(ctx, why)
	})
	needed = needed || vfs.Asked(ctx) // a guard of an outer membrane has asked
	if !needed || v.guards.asked(ctx, op) {
		return false, nil
	}
	vfs.Forget(ctx) // the change is made later
	return true, err
}

// askFirst returns do for a change that needs an approval for which nobody was asked yet: it asks first.
func askFirst(targets []target, do func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := whys(targets, func(why string) error { return vfs.Asks(ctx, why) }); err != nil {
			return err
		}
		return do(ctx)
	}
}

// stands reports whether op, which changes targets and needs an approval, was approved for now, whatever is there. Then it is
// made under the conditions of its caller.
func (v *view) stands(ctx context.Context, op Op, targets ...target) bool {
	if vfs.Answered(ctx) {
		return vfs.Stands(ctx)
	}
	op.targets = targets
	return v.guards.stands != nil && v.guards.stands(op)
}

// bound returns ctx for a change whose approval holds for b.
func bound(ctx context.Context, b vfs.Bound) context.Context {
	call := vfs.CallOf(ctx)
	call.Bound = &b
	return vfs.WithCall(ctx, call)
}

// seen returns c for a change at t that waits for an approval: what is approved is a change of what is there now. So a
// condition that anything meets becomes one that only this meets. now finds it.
func (t target) seen(ctx context.Context, c vfs.If, now func(context.Context) (vfs.If, error)) (vfs.If, error) {
	if !c.IsZero() {
		return c, nil
	}
	err := whileBound(func(ctx context.Context) error {
		return t.view.guards.within(ctx, func(ctx context.Context) (err error) {
			c, err = now(ctx)
			return err
		})
	}, t)(ctx)
	return c, err
}

// now returns how the condition is found that what is called name meets now. A directory or a link has no version.
func (v *dirView) now(name string) func(context.Context) (vfs.If, error) {
	return func(ctx context.Context) (is vfs.If, err error) {
		n, err := v.dir.Lookup(ctx, name)
		if vfs.CodeOf(err) == vfs.NotFound {
			return vfs.If{Absent: true}, nil
		}
		if err != nil {
			return is, err
		}
		defer n.Close()
		if f, ok := n.(vfs.File); ok {
			is.Is, err = vfs.VersionOf(ctx, f)
		}
		return is, err
	}
}

func (v *fileView) now(ctx context.Context) (is vfs.If, err error) {
	is.Is, err = vfs.VersionOf(ctx, v.file)
	return is, err
}

// making returns ctx for op, which makes a node at t, with the approval that it needs. text is that of a link.
func (v *dirView) making(ctx context.Context, op Op, t target, text []byte) (context.Context, error) {
	asked, err := v.asks(ctx, op, t)
	if asked {
		ctx = bound(ctx, vfs.Bound{Found: vfs.If{Absent: true}, Data: text})
	}
	return ctx, err
}

// replacing returns ctx and the condition for op, which replaces the file called name at t if c holds, with the approval that it
// needs.
func (v *dirView) replacing(ctx context.Context, op Op, t target, name string, c vfs.If, exec bool) (context.Context, vfs.If, error) {
	asked, err := v.asks(ctx, op, t)
	if !asked || err != nil {
		return ctx, c, err
	}
	stands := v.stands(ctx, op, t)
	if !stands {
		c, err = t.seen(ctx, c, v.now(name))
	}
	return bound(ctx, vfs.Bound{Found: c, Exec: exec, Stands: stands}), c, err
}

// removing is replacing for a remove. A directory or a link is removed as such: a file that takes its place stays.
func (v *dirView) removing(ctx context.Context, op Op, t target, name string, c vfs.If) (context.Context, vfs.If, error) {
	asked, err := v.asks(ctx, op, t)
	switch {
	case !asked || err != nil:
		return ctx, c, err
	case v.stands(ctx, op, t):
		return bound(ctx, vfs.Bound{Found: c, Stands: true}), c, nil
	}
	is, err := t.seen(ctx, c, v.now(name))
	switch {
	case err != nil:
		return ctx, c, err
	case is.Absent: // the store says that there is nothing
	case is.Is.IsZero():
		c.NoFile = true
	default:
		c.Is = is.Is
	}
	return bound(ctx, vfs.Bound{Found: c}), c, nil
}

// end is one end of a move.
type end struct {
	dir  *dirView
	at   target
	name string
	is   vfs.If
}

// moving is replacing for a move.
func (v *dirView) moving(ctx context.Context, op Op, from, to end) (context.Context, vfs.If, vfs.If, error) {
	asked, err := v.asks(ctx, op, from.at, to.at)
	switch {
	case !asked || err != nil:
		return ctx, from.is, to.is, err
	case v.stands(ctx, op, from.at, to.at):
		return bound(ctx, vfs.Bound{Found: from.is, FoundTo: to.is, Stands: true}), from.is, to.is, nil
	}
	is, err := from.at.seen(ctx, from.is, from.dir.now(from.name))
	if err != nil {
		return ctx, from.is, to.is, err
	}
	if !is.Absent { // the store says that there is nothing
		from.is = is
	}
	over := to.is
	switch {
	case to.is.Over:
		if over, err = to.at.seen(ctx, to.is, to.dir.now(to.name)); err != nil {
			return ctx, from.is, to.is, err
		}
		over.Over, over.NoFile = true, over.IsZero() // a directory or a link: a file that takes its place stays
		to.is = over
	case over.IsZero(): // then the store says that something is there, if it is
		over.Absent = true
	}
	return bound(ctx, vfs.Bound{Found: from.is, FoundTo: over}), from.is, to.is, nil
}

// replacing is that of dirView for the file itself. b is what is written, if no whole file is staged.
func (v *fileView) replacing(ctx context.Context, op Op, t target, c vfs.If, b vfs.Bound) (context.Context, vfs.If, error) {
	asked, err := v.asks(ctx, op, t)
	if !asked || err != nil {
		return ctx, c, err
	}
	if b.Found, b.Stands = c, v.stands(ctx, op, t); !b.Stands {
		b.Found, err = t.seen(ctx, c, v.now)
	}
	return bound(ctx, b), b.Found, err
}

// aside gives up the slot while wait runs. Afterwards it waits for a slot as long as that takes, since the store needs one
// to drop what it has staged. But when the store does not answer, the caller is told so at once, and the change is not made.
func (s *slot) aside(ctx context.Context) func(wait func()) error {
	return func(wait func()) (lost error) {
		if !s.leave() {
			wait()
			return nil
		}
		wait()
		s.again(ctx, func() {
			lost = cmp.Or(context.Cause(ctx), errNoAnswer)
			if s.giveUp != nil {
				s.giveUp(lost)
			}
		})
		return lost
	}
}

// entered returns ctx for a call that has s, which it gives up while it waits for a human.
func (s *slot) entered(ctx context.Context) context.Context {
	if !vfs.Asked(ctx) {
		return ctx
	}
	call := vfs.CallOf(ctx)
	call.OnAside(s.aside(ctx))
	return vfs.WithCall(ctx, call)
}
