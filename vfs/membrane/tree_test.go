package membrane_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

func TestGatesLeaveTheTree(t *testing.T) {
	gate := membrane.NewGate()
	_, raw := check.Store(t, check.Sample)
	d := membrane.Guarded(raw, gate)
	for range 3 {
		root, c := check.Controlled(t, d)
		a := check.DirAt(t, root, "a")
		sub, own := check.Controlled(t, a)
		route := check.Child(t, c, "a", "b")
		b := check.DirAt(t, sub, "b") // at a composite
		_, err := b.Stat(t.Context())
		check.OK(t, err)
		bb, bc := check.Controlled(t, b)
		stop := membrane.OnRevoke(bb, func(error) {})
		f := check.FileAt(t, bb, "f")
		content, err := vfs.Open(t.Context(), f)
		check.OK(t, err)
		check.OK(t, f.Close())
		if n := membrane.Below(gate); n < 5 {
			t.Errorf("%d gates", n)
		}
		check.OK(t, route.SetWritable(false))
		for _, c := range []*membrane.Control{bc, own, route, c} {
			c.Release()
			c.Release()
		}
		_, err = content.ReadAt(make([]byte, 1), 0)
		check.OK(t, err)
		stop()
		for _, v := range []vfs.Dir{bb, b, sub, a, root} {
			check.OK(t, v.Close())
		}
		if membrane.Below(gate) == 0 {
			t.Error("the content holds no gate")
		}
		check.OK(t, content.Close())
		if n := membrane.Below(gate); n != 0 {
			t.Errorf("%d gates are left", n)
		}
	}
}

func TestNoGateIsLeft(t *testing.T) {
	gate := membrane.NewGate()
	_, raw := check.Store(t, check.Sample)
	d := membrane.Guarded(raw, gate)
	top, c := check.Controlled(t, d)
	rng := rand.New(rand.NewPCG(1, 2))
	type open struct {
		d vfs.Dir
		c *membrane.Control
	}
	var views []open
	var controls []*membrane.Control
	paths := []string{"a", "a/b", "a/b/c"}
	for range 2000 {
		switch rng.IntN(7) {
		case 0, 1:
			from := top
			if len(views) > 0 && rng.IntN(3) > 0 {
				from = views[rng.IntN(len(views))].d
			}
			sub, own := check.Controlled(t, from)
			views = append(views, open{sub, own})
		case 2:
			views = append(views, open{check.DirAt(t, top, paths[rng.IntN(3)]), nil})
		case 3:
			names := []string{"a", "b", "c"}[:1+rng.IntN(3)]
			controls = append(controls, check.Child(t, c, names...))
		case 4:
			if len(controls) > 0 {
				i := rng.IntN(len(controls))
				check.OK(t, controls[i].SetWritable(true))
				controls[i].Release()
				controls = append(controls[:i], controls[i+1:]...)
			}
		case 5:
			if len(views) > 0 {
				i := rng.IntN(len(views))
				check.OK(t, views[i].d.Close())
				if views[i].c != nil {
					views[i].c.Release()
				}
				views = append(views[:i], views[i+1:]...)
			}
		case 6:
			if len(views) > 0 {
				v := views[rng.IntN(len(views))].d
				_, err := v.Stat(t.Context())
				check.OK(t, err)
				check.OK(t, check.Put(t.Context(), v, "f", "x"))
			}
		}
	}
	for _, c := range controls {
		c.Release()
	}
	for _, v := range views {
		check.OK(t, v.d.Close())
		if v.c != nil {
			v.c.Release()
		}
	}
	if n := membrane.Below(gate); n != 1 {
		t.Errorf("%d gates are left", n)
	}
	c.Release()
	check.OK(t, top.Close())
	if n := membrane.Below(gate); n != 0 {
		t.Errorf("%d gates are left", n)
	}
	check.OK(t, d.Close())
	gate.Release()
	if !membrane.Gone(gate) {
		t.Error("the root is left")
	}
}

// TestClosedWhileUsed closes views while others use them and derive from them, and then
// revokes. Nothing derived from them lives on.
func TestClosedWhileUsed(t *testing.T) {
	for range 300 {
		gate := membrane.NewGate()
		_, raw := check.Store(t, check.Sample)
		d := membrane.Guarded(raw, gate)
		sub, own := check.Controlled(t, d)
		own.Release()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []vfs.Node
		keep := func(n vfs.Node, err error) {
			if err != nil {
				if code := vfs.CodeOf(err); code != vfs.Stale {
					t.Errorf("an error: %v", err)
				}
				return
			}
			mu.Lock()
			got = append(got, n)
			mu.Unlock()
		}
		wg.Go(func() { keep(sub.Lookup(t.Context(), "a")) })
		wg.Go(func() {
			d, _, err := membrane.RevocableDir(sub)
			keep(d, err)
		})
		wg.Go(func() {
			d, err := membrane.ReadOnlyDir(sub)
			keep(d, err)
		})
		wg.Go(func() { sub.Close() })
		wg.Wait()
		check.OK(t, gate.Revoke())
		for _, n := range got {
			if _, err := n.Stat(t.Context()); err == nil {
				t.Fatalf("%T lives on", n)
			}
		}
	}
}

func TestRevokeOfMany(t *testing.T) {
	const many = 20_000
	d, c, _ := check.Guarded(t, check.Sample)
	views := make([]vfs.Dir, many)
	told := 0
	for i := range views {
		views[i], _ = check.Controlled(t, d)
		membrane.OnRevoke(views[i], func(error) { told++ })
	}
	begun := time.Now()
	check.OK(t, c.Revoke())
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("revoking %d took %v", many, took)
	}
	if told != many {
		t.Errorf("told %d", told)
	}
	for _, v := range views {
		if _, err := v.Stat(t.Context()); vfs.CodeOf(err) != vfs.Revoked {
			t.Fatal(err)
		}
		v.Close()
	}
}

// BenchmarkCheck measures what a membrane adds, at the end of a long chain of gates.
func BenchmarkCheck(b *testing.B) {
	for _, routes := range []bool{false, true} {
		for _, depth := range []int{1, 1000} {
			d, c, _ := check.Guarded(b, check.Sample)
			if routes {
				defer check.Child(b, c, "a", "b").Release()
			}
			for range depth {
				d, _ = check.Controlled(b, d)
			}
			f := check.FileAt(b, d, "f")
			p := make([]byte, 1)
			b.Run(fmt.Sprintf("read/routes=%v/depth=%d", routes, depth), func(b *testing.B) {
				for b.Loop() {
					f.ReadAt(b.Context(), p, 0)
				}
			})
			b.Run(fmt.Sprintf("write/routes=%v/depth=%d", routes, depth), func(b *testing.B) {
				for b.Loop() {
					f.WriteAt(b.Context(), p, 0, vfs.If{})
				}
			})
		}
	}
}
