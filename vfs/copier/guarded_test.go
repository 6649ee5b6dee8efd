package copier_test

import (
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// behind puts the target of p behind a mount with a guard, and the mount behind a
// membrane. revoke revokes the membrane.
func (p *pair) behind(t *testing.T, g membrane.Guard) (revoke func() error) {
	t.Helper()
	ns := namespace.New()
	check.OK(t, ns.Mount("m", p.toDir, namespace.Options{Guards: []membrane.Guard{g}}))
	d, control := check.Controlled(t, membrane.Guarded(ns.Root(), nil))
	p.toDir = check.DirAt(t, d, "m")
	return control.Revoke
}

func used(t *testing.T, p *pair) vfs.Effect {
	t.Helper()
	bytes, nodes := p.to.Usage()
	return vfs.Effect{Bytes: bytes, Nodes: nodes}
}

// TestTargetRevoked revokes the target at each step of the copy. After that nothing
// appears, and a directory that was never visible does not count in any meter.
func TestTargetRevoked(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.StageDir, faultfs.Mkdir, faultfs.Install, faultfs.Symlink, faultfs.Place} {
		p := newPair(t, nil, true)
		m := check.NewMeter(meter.Limits{meter.StoredBytes: 1 << 20, meter.StoredNodes: 100})
		revoke := p.behind(t, membrane.Guard{Meter: m})
		pause := p.toPlan.Pause(op, faultfs.Before, 1)
		done := make(chan error)
		go func() { done <- p.duplicate(t.Context(), "d", copier.Options{Workers: 1}) }()
		<-pause.Reached()
		check.OK(t, revoke())
		pause.Resume()
		check.Is(t, string(op), <-done, vfs.Revoked)
		if now := check.Picture(t, p.to.Root()); now != p.toWhole {
			t.Errorf("%s: there is %s", op, now)
		}
		if u := check.UsageOf(m); used(t, p) != (vfs.Effect{}) || u.Bytes != 0 || u.Nodes != 0 {
			t.Errorf("%s: the store counts %+v, the meter %+v", op, used(t, p), u)
		}
	}
}

// TestTargetGuarded: the target's guards apply to what is made out of sight.
func TestTargetGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		guard membrane.Guard
		want  vfs.Code
	}{
		"nothing in the way":     {membrane.Guard{Meter: check.NewMeter(meter.Limits{meter.StoredBytes: 20_008, meter.StoredNodes: 8})}, ""},
		"quota of bytes":         {membrane.Guard{Meter: check.NewMeter(meter.Limits{meter.StoredBytes: 20_007})}, vfs.Quota},
		"quota of nodes":         {membrane.Guard{Meter: check.NewMeter(meter.Limits{meter.StoredNodes: 7})}, vfs.Quota},
		"a file withheld":        {deny.Must("got/e/g").Guard(), vfs.Denied},
		"all of it withheld":     {deny.Must("got").Guard(), vfs.Denied},
		"a file asked about":     {deny.Must("got/e/g").Ask("it"), vfs.AskDenied},
		"another place withheld": {deny.Must("d/**").Guard(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, vfstest.Tree{}, true)
			p.behind(t, c.guard)
			check.Is(t, "Duplicate", p.duplicate(t.Context(), "d", copier.Options{}), c.want)
			if c.want == "" != p.arrived(t, "d") {
				t.Errorf("there is %s", check.Picture(t, p.to.Root()))
			}
			if c.guard.Meter == nil {
				return
			}
			if u := check.UsageOf(c.guard.Meter); used(t, p) != (vfs.Effect{Bytes: u.Bytes, Nodes: u.Nodes}) {
				t.Errorf("the store counts %+v, the meter %+v", used(t, p), u)
			}
		})
	}
}
