package membrane

import (
	"context"

	"capd/meter"
	"capd/vfs"
)

// Temps makes temporary directories. A guard has it.
type Temps struct {
	// New makes an empty directory. remove removes it with everything in it. It is called once, when nothing of the directory is
	// open any more, and may take long.
	New func(ctx context.Context) (d vfs.Dir, remove func(), err error)
	// Carry makes moves between a temporary directory and another tree.
	Carry Carrier
	// Journal is as in [Guard].
	Journal vfs.Dir
	// Bulkhead bounds how many calls are inside all the directories at once.
	Bulkhead *Bulkhead
}

// Temp makes a directory of its own for whoever holds d, behind the gate of d: it has the rights of d, and is locked and revoked
// with it. What is set for a part of d's tree does not matter there. The directory counts in the meter of d, with what is in it. It is removed
// when neither it nor anything derived from it is open any more. It cannot be shared; see [IsTemp]. Temp needs the right to write. It
// answers limit.
func Temp(ctx context.Context, d vfs.Dir) (vfs.Dir, error) {
	v, err := viewOf[*dirView](d)
	if err == nil {
		err = v.may(ctx, noWrite)
	}
	if err != nil {
		return nil, err
	}
	temps, m := v.guards.temps, v.base.meter
	if temps == nil || m == nil {
		return nil, vfs.Errorf(vfs.Unsupported, "this host makes no temporary directories")
	}
	if err := Take(m, meter.Temps, 1); err != nil {
		return nil, err
	}
	dir, remove, err := temps.New(ctx)
	if err != nil {
		m.Give(meter.Temps, 1)
		return nil, err
	}
	used := meter.New("temp", "this temporary directory", nil)
	gate, err := v.base.apart(m, func() {
		remove()
		left := used.Stored()
		m.Settle(meter.Effect{}, meter.Effect{Bytes: -left.Bytes, Nodes: -left.Nodes})
		m.Give(meter.Temps, 1)
	})
	if err != nil {
		dir.Close()
		remove()
		m.Give(meter.Temps, 1)
		return nil, err
	}
	defer gate.Release()
	set := newGuardSet([]Guard{{Meter: used, Temps: temps, Journal: temps.Journal, Bulkhead: temps.Bulkhead}})
	set.temp = true
	made := &dirView{dir: dir}
	if err := (&view{guards: set}).deriveAt(&made.view, newShared(dir), "", set.root, gate, v.mask); err != nil {
		return nil, err
	}
	if err := v.may(ctx, noWrite); err != nil {
		made.Close()
		return nil, err
	}
	return made, nil
}

// IsTemp reports whether n is in a directory that [Temp] made.
func IsTemp(n vfs.Node) bool {
	switch v := n.(type) {
	case *dirView:
		return v.guards.temp
	case *fileView:
		return v.guards.temp
	}
	return false
}

// tempsWith returns what makes temporary directories if a move from v to d is one to or from such a directory, and nil otherwise.
func (v *dirView) tempsWith(d *dirView) *Temps {
	switch {
	case v.guards == d.guards:
	case v.guards.temp:
		return v.guards.temps
	case d.guards.temp:
		return d.guards.temps
	}
	return nil
}

// apart makes a gate below g for another tree, in which no route of g applies. When nobody refers to it any more, ended runs,
// and until it returns, g is referred to. The caller has one reference.
func (g *Gate) apart(m *meter.Meter, ended func()) (*Gate, error) {
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	if g.depth >= maxDerived {
		return nil, vfs.Errorf(vfs.Limit, "this was derived %d times in a chain; begin from an earlier one", g.depth)
	}
	d := g.tree.newGate("", []*Gate{g})
	g.acquire()
	d.depth, d.meter = g.depth+1, m
	d.ended = func() {
		defer g.Release()
		ended()
	}
	return d, nil
}
