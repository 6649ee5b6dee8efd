package membrane_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// faulty is a sample with faults behind a membrane.
func faulty(t testing.TB, guards ...membrane.Guard) (vfs.Dir, *membrane.Control, *faultfs.Plan, vfs.Dir) {
	t.Helper()
	_, raw := check.Store(t, check.Sample)
	plan := &faultfs.Plan{}
	d, c := check.Controlled(t, membrane.Guarded(faultfs.New(raw, plan), nil, guards...))
	return d, c, plan, raw
}

// TestShutAfterStaging: a change has staged everything when the gate is shut. It does not
// take effect.
func TestShutAfterStaging(t *testing.T) {
	for name, shut := range map[string]func(*membrane.Control) error{
		"readOnly": func(c *membrane.Control) error { return c.SetWritable(false) },
		"revoked":  func(c *membrane.Control) error { return c.Revoke() },
	} {
		t.Run(name, func(t *testing.T) {
			for i, o := range check.Ops {
				if !o.Changes {
					continue
				}
				// The guard has finished before the commit: shut the gate there.
				var control *membrane.Control
				due := false
				d, c, raw := check.Guarded(t, check.Sample, membrane.Guard{Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
					if due && op.Kind.Changes() {
						check.OK(t, shut(control))
					}
					return do(ctx)
				}})
				control = c
				h := check.Hold(t, d)
				for _, before := range check.Ops[:i] { // what it needs
					if before.Changes {
						check.OK(t, before.Do(t.Context(), h))
					}
				}
				due = true
				was := check.Picture(t, raw)
				check.Is(t, o.Name, o.Do(t.Context(), h), vfs.Code(name))
				if now := check.Picture(t, raw); now != was {
					t.Errorf("%s: changed\n%s\nto\n%s", o.Name, was, now)
				}
			}
		})
	}
}

// TestNothingAfterRevoke: writers run at full speed while the gate is shut, many times.
// After the answer the tree does not change.
func TestNothingAfterRevoke(t *testing.T) {
	for name, shut := range map[string]func(*membrane.Control) error{
		"readOnly": func(c *membrane.Control) error { return c.SetWritable(false) },
		"revoked":  func(c *membrane.Control) error { return c.Revoke() },
	} {
		t.Run(name, func(t *testing.T) {
			var landed atomic.Int64
			for range 150 {
				d, c, raw := check.Guarded(t, check.Sample)
				var wg sync.WaitGroup
				for i := range 4 {
					sub, own := check.Controlled(t, d)
					wg.Go(func() {
						defer own.Release()
						defer sub.Close()
						for n := 0; ; n++ {
							file := fmt.Sprint(i, n%3)
							err := check.Put(context.Background(), sub, file, fmt.Sprint(n))
							if err == nil && n%3 == 2 {
								err = sub.Remove(context.Background(), file, vfs.If{})
							}
							if err != nil {
								check.Is(t, "writer", err, vfs.Code(name))
								return
							}
							landed.Add(1)
						}
					})
				}
				for soon := landed.Load() + 20; landed.Load() < soon; {
					time.Sleep(time.Microsecond)
				}
				check.OK(t, shut(c))
				before := check.Picture(t, raw)
				time.Sleep(50 * time.Microsecond)
				wg.Wait()
				if after := check.Picture(t, raw); after != before {
					t.Fatalf("after the gate was shut %s became %s", before, after)
				}
				check.OK(t, c.Revoke())
			}
			if landed.Load() < 1000 {
				t.Errorf("only %d changes landed", landed.Load())
			}
		})
	}
}

// TestStuckDecided: who exchanged rules is told of a change that does not end. Nothing is shut.
func TestStuckDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, plan, _ := faulty(t)
		pause, done := plan.Pause(faultfs.Replace, faultfs.Commit, 1), make(chan error, 1)
		go func() { done <- check.Put(t.Context(), check.DirAt(t, d, "a"), "stuck", "x") }()
		<-pause.Reached()
		begun := time.Now()
		err := c.Decided()
		check.Is(t, "one that does not end", err, vfs.Busy)
		if took := time.Since(begun); took != membrane.Grace || !strings.Contains(err.Error(), "the rules hold, but 1 changes") || !strings.Contains(err.Error(), "replace a/stuck") {
			t.Errorf("after %v: %v", took, err)
		}
		check.OK(t, check.Put(t.Context(), d, "f", "x"))
		pause.Resume()
		check.OK(t, <-done)
		check.OK(t, c.Decided())
	})
}

// TestStuckCommit is a change that does not end within the grace.
func TestStuckCommit(t *testing.T) {
	for name, shut := range map[string]func(*membrane.Control) error{
		"readOnly": func(c *membrane.Control) error { return c.SetWritable(false) },
		"revoked":  func(c *membrane.Control) error { return c.Revoke() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c, plan, raw := faulty(t)
				a, ac := check.Controlled(t, check.DirAt(t, d, "a"))
				below, bc := check.Controlled(t, a)
				pause := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
				done := make(chan error, 1)
				go func() { done <- check.Put(t.Context(), below, "stuck", "x") }()
				<-pause.Reached()
				// Whoever derived it releases it, which does not end it.
				bc.Release()
				check.OK(t, below.Close())

				for range 2 {
					begun := time.Now()
					err := shut(c)
					check.Is(t, "shut", err, vfs.Busy)
					if took := time.Since(begun); took != membrane.Grace {
						t.Errorf("took %v", took)
					}
					if !strings.Contains(err.Error(), "replace a/stuck") {
						t.Errorf("does not say what: %v", err)
					}
					check.Is(t, "another change", check.Put(t.Context(), d, "f", "x"), vfs.Code(name))
				}
				err := shut(ac)
				check.Is(t, "shut at a", err, vfs.Busy)
				if !strings.Contains(err.Error(), "replace stuck") || strings.Contains(err.Error(), "a/") {
					t.Errorf("names what is above: %v", err)
				}

				go func() {
					time.Sleep(2 * time.Second)
					pause.Resume()
				}()
				begun := time.Now()
				check.OK(t, shut(c))
				if took := time.Since(begun); took != 2*time.Second {
					t.Errorf("took %v", took)
				}
				check.OK(t, <-done)
				if check.Read(t, raw, "a/stuck") != "x" {
					t.Error("did not land")
				}
				if n := membrane.Changing(c.Gate); n != 0 {
					t.Errorf("%d changes are left", n)
				}
			})
		})
	}
}

// TestOtherGateIsNotHeldUp: a stuck change delays nobody at another gate.
func TestOtherGateIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, plan, _ := faulty(t)
		one, _ := check.Controlled(t, d)
		two, own := check.Controlled(t, d)
		pause := plan.Pause(faultfs.Mkdir, faultfs.Commit, 1)
		done := make(chan error, 1)
		go func() {
			_, err := one.Mkdir(t.Context(), "stuck")
			done <- err
		}()
		<-pause.Reached()
		begun := time.Now()
		check.OK(t, check.Put(t.Context(), two, "x", "x"))
		check.OK(t, own.Revoke())
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %v", took)
		}
		pause.Resume()
		check.OK(t, <-done)
		check.OK(t, c.Revoke())
	})
}

// TestRouteGoesWhileCommitting: a change in progress at a route still counts after the
// control of the route has been released.
func TestRouteGoesWhileCommitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, plan, _ := faulty(t)
		child, err := c.Child(t.Context(), "a")
		check.OK(t, err)
		a := check.DirAt(t, d, "a")
		pause := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
		done := make(chan error, 1)
		go func() { done <- check.Put(t.Context(), a, "stuck", "x") }()
		<-pause.Reached()
		child.Release()
		check.Is(t, "revoke", c.Revoke(), vfs.Busy)
		pause.Resume()
		check.OK(t, <-done)
		check.OK(t, c.Revoke())
		if n := membrane.Changing(c.Gate); n != 0 {
			t.Errorf("%d changes are left", n)
		}
	})
}

// TestSlowReader: a revoke does not wait for staging, and the caller that stages does not
// wait either.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, raw := check.Guarded(t, check.Sample)
		before := check.Picture(t, raw)
		r, w := io.Pipe()
		done := make(chan error, 2)
		go func() {
			_, err := d.Replace(t.Context(), "f", r, vfs.If{})
			done <- err
		}()
		_, err := w.Write([]byte("half"))
		check.OK(t, err)
		synctest.Wait()
		check.OK(t, c.Revoke())
		check.Is(t, "revoked", <-done, vfs.Revoked)
		w.Close()

		d, c, raw2 := check.Guarded(t, check.Sample)
		ctx, cancel := context.WithCancel(t.Context())
		r, w = io.Pipe()
		go func() {
			_, err := check.FileAt(t, d, "f").Replace(ctx, r, vfs.If{})
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; err != context.Canceled {
			t.Errorf("cancelled: %v", err)
		}
		w.Close()

		r, w = io.Pipe()
		go func() {
			_, err := d.Replace(t.Context(), "f", r, vfs.If{})
			done <- err
		}()
		_, err = w.Write([]byte("half"))
		check.OK(t, err)
		check.OK(t, c.SetWritable(false))
		go w.Write([]byte("more"))
		check.Is(t, "locked", <-done, vfs.ReadOnly)
		r.Close()
		if check.Picture(t, raw) != before || check.Picture(t, raw2) != before {
			t.Error("something changed")
		}
		if n := membrane.Watchers(c.Gate); n != 0 {
			t.Errorf("%d watchers are left", n)
		}
	})
}

// TestReadInFlight: the result of a read is withheld if the right to it was taken back
// meanwhile.
func TestReadInFlight(t *testing.T) {
	for what, take := range map[vfs.Code]func(*membrane.Control){
		vfs.Revoked: func(c *membrane.Control) { c.Revoke() },
		vfs.Denied:  func(c *membrane.Control) { c.SetReadable(false) },
	} {
		for op, read := range map[faultfs.Op]string{
			faultfs.Stat: "stat a file", faultfs.Lookup: "lookup", faultfs.List: "list", faultfs.ReadAt: "read",
			faultfs.Version: "version", faultfs.Open: "open", faultfs.Content: "read a content", faultfs.Target: "target",
		} {
			for _, guards := range [][]membrane.Guard{nil, check.Policies()} {
				d, c, plan, _ := faulty(t, guards...)
				h := check.Hold(t, d)
				pause := plan.Pause(op, faultfs.After, 1)
				done := make(chan error, 1)
				for _, o := range check.Ops {
					if o.Name == read {
						go func() { done <- o.Do(t.Context(), h) }()
					}
				}
				<-pause.Reached()
				take(c)
				pause.Resume()
				check.Is(t, fmt.Sprint(read, " in flight"), <-done, what)
			}
		}
	}
}

func TestReadInFlightGivesNothing(t *testing.T) {
	d, c, plan, _ := faulty(t, check.Policies()...)
	f := check.FileAt(t, d, "f")
	pause := plan.Pause(faultfs.ReadAt, faultfs.After, 1)
	go func() {
		<-pause.Reached()
		c.Revoke()
		pause.Resume()
	}()
	if n, err := f.ReadAt(t.Context(), make([]byte, 7), 0); n != 0 || vfs.CodeOf(err) != vfs.Revoked {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestListInProgress(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	var seen []string
	var last error
	for e, err := range d.List(t.Context()) {
		if err != nil {
			last = err
			continue
		}
		seen = append(seen, e.Name)
		check.OK(t, c.Revoke())
	}
	if len(seen) != 1 {
		t.Errorf("saw %v", seen)
	}
	check.Is(t, "the end", last, vfs.Revoked)
}
