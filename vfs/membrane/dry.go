package membrane

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"capd/vfs"
)

// change explains a change, and tries it.
func (x *explaining) change(n vfs.Node, q Question) {
	if f, ok := n.(*fileView); ok && q.Path == "" && x.kind == OpReplace {
		x.need = OpReplace.need()
		x.target(target{view: &f.view, path: f.path, rules: f.standing(), need: x.need})
		x.Err = x.try(func(ctx context.Context) error {
			_, err := f.Replace(ctx, strings.NewReader(""), vfs.If{})
			return err
		})
		return
	}
	d, ok := n.(vfs.Dir)
	if !ok {
		x.Err = vfs.NotDir
		return
	}
	if err := x.places(d, q); err != nil {
		return
	}
	x.Err = x.try(func(ctx context.Context) error { return x.do(ctx, d, q) })
	if x.kind == OpRemove && x.Err == nil {
		x.Err = x.full(d, q.Path)
	}
}

// places adds what decides about a change at q's places. It answers why one cannot be reached.
func (x *explaining) places(d vfs.Dir, q Question) error {
	x.moves = x.kind == OpRemove || x.kind == OpRename
	x.need = x.kind.need()
	err := x.placed(d, q.Path)
	if err == nil && x.kind == OpRename {
		x.need = needs[OpRename].target
		err = x.placed(d, q.To)
	}
	return err
}

func (x *explaining) placed(d vfs.Dir, path string) error {
	dir, name, release, err := vfs.WalkParent(x.ctx, d, path)
	if err != nil {
		x.lost(d, path, err)
		return err
	}
	defer release()
	if x.kind == OpRename {
		x.add(AboutPath, nil, vfs.Printable(path))
	}
	_ = x.holding().In(dir, []Op{{Kind: OpReplace, Path: name}}) // the change itself answers the error
	return nil
}

// full returns why the directory at path below d cannot be removed: it holds something. The store says so only when it
// removes it.
func (x *explaining) full(d vfs.Dir, path string) error {
	n, err := vfs.WalkLink(x.ctx, d, path)
	if err != nil {
		return nil // it can be removed, but not looked at
	}
	defer n.Close()
	v, ok := n.(*dirView)
	if !ok {
		return nil
	}
	some := false
	err = v.guards.within(x.ctx, func(ctx context.Context) (err error) { // without the right to list: who removes it is told, too
		some, err = vfs.Any(ctx, v.dir, func(e vfs.Entry) bool { return !v.guards.skips(v.standing(), e.Name) })
		return err
	})
	if err == nil && some {
		return vfs.NotEmpty
	}
	if hides, err := Conceals(x.ctx, v); err == nil && hides {
		return vfs.Errorf(vfs.Denied, "it cannot be removed: policy decides about what it may hold")
	}
	return nil
}

// do makes the change.
func (x *explaining) do(ctx context.Context, d vfs.Dir, q Question) error {
	if x.kind == OpReplace {
		_, err := vfs.Put(ctx, d, q.Path, strings.NewReader(""), vfs.If{})
		return err
	}
	dir, name, release, err := vfs.WalkParent(ctx, d, q.Path)
	if err != nil {
		return vfs.At(q.Path, err)
	}
	defer release()
	if x.kind == OpRemove {
		return vfs.At(q.Path, dir.Remove(ctx, name, vfs.If{}))
	}
	to, newName, releaseTo, err := vfs.WalkParent(ctx, d, q.To)
	if err != nil {
		return vfs.At(q.To, err)
	}
	defer releaseTo()
	return vfs.At(q.Path, dir.Rename(ctx, name, to, newName, vfs.If{}, vfs.If{}))
}

// try runs a change that ends when it is ready to be made. It returns the error of what it came to.
func (x *explaining) try(do func(context.Context) error) error {
	t := &trial{}
	call := vfs.CallOf(x.ctx)
	call.OnTrial(t)
	err := do(vfs.WithCall(x.ctx, call))
	t.mu.Lock() // a write that was given up may still run
	defer t.mu.Unlock()
	x.Asks = slices.Clone(t.asks)
	if t.ready {
		return t.err
	}
	return err
}

// trial is a [vfs.Change] that is never made.
type trial struct {
	mu    sync.Mutex
	asks  []string
	ready bool
	err   error
}

// Asks implements [vfs.Change].
func (t *trial) Asks(why string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if why != "" && !slices.Contains(t.asks, why) {
		t.asks = append(t.asks, why)
	}
	return nil
}

// Stands implements [vfs.Change].
func (t *trial) Stands() bool { return false }

var errTried = errors.New("this was only tried")

// Ready implements [vfs.Change]. What the gates and the quotas say when a change is made is asked here.
func (t *trial) Ready(ctx context.Context, s vfs.Staged) (func() error, error) {
	err := vfs.Probe(ctx, s.Grows)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready {
		t.ready, t.err = true, err
	}
	return nil, errTried
}

// in adds what decides about op in d, and goes inward.
func (x *explaining) in(d *dirView, h *Holding, ops []Op) error {
	if !x.kind.Changes() && !x.trace {
		x.view(&d.view, nil)
		var err error
		x.inside(func() { err = h.In(d.dir, ops) })
		return err
	}
	for _, op := range ops {
		t, err := d.targetOf(op.Path, x.need, x.moves)
		switch {
		case err != nil:
			return err
		case x.trace:
			x.traced(d, strings.Split(op.Path, "/"))
		default:
			x.target(t)
		}
	}
	var err error
	x.inside(func() { err = h.In(d.dir, ops) })
	return err
}

// target adds what decides about a change at t, in the order of target.refused.
func (x *explaining) target(t target) {
	if !x.deep {
		x.Places = append(x.Places, t.path)
	}
	a, err := t.asked(x.ctx)
	if err != nil {
		x.add(AboutGate, err, "")
		return
	}
	for i, c := range checks {
		err := c.ask(a)
		switch {
		case c.about == AboutGate:
			x.gate(t.view, err)
		case c.about == AboutRights && (err != nil || i < len(checks)/2 && a.mode.refuse(t.need) == nil): // once
			x.rights(a.mode, t.view.mask, t.need, err)
		case c.about == AboutRule:
			x.rule(t.view.guards.current(t.rules, t.path), t.need, err)
		case c.about == AboutWithheld && err != nil:
			x.withheld(t.view.guards, t.rules, err)
		case err != nil:
			x.add(c.about, err, "")
		}
		if err != nil {
			return // what is not asked is not told
		}
	}
	x.bounds(t.rules.bounds(t.need), nil)
	_ = whys([]target{t}, func(why string) error {
		x.add(AboutApproval, nil, "needs an approval")
		x.Reasons[len(x.Reasons)-1].Source = why
		return nil
	})
	for m := range t.view.meters().all {
		if left, whose, bounded := m.StoredRoom(); bounded {
			x.add(AboutQuota, nil, strconv.FormatInt(left, 10)+" bytes are left of the quota of "+whose)
		}
	}
}
