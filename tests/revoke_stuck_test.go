package tests

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/client"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
)

// commits are a guest's changes. Each has a way to hold it in its commit, and
// the name that a stuck revoke lists.
var commits = []struct {
	op   faultfs.Op
	name string
	do   func(ctx context.Context, d *client.Dir) error
}{
	{faultfs.Replace, "f", func(ctx context.Context, d *client.Dir) error { return byPut(ctx, d, "f") }},
	{faultfs.Replace, "new", func(ctx context.Context, d *client.Dir) error {
		_, err := d.Put(ctx, "new", strings.NewReader(strings.Repeat("staged", 1<<20)), vfs.If{})
		return err
	}},
	{faultfs.Create, "new", func(ctx context.Context, d *client.Dir) error { _, err := d.CreateFile(ctx, "new"); return err }},
	{faultfs.Mkdir, "new", func(ctx context.Context, d *client.Dir) error { _, err := d.CreateDir(ctx, "new"); return err }},
	{faultfs.Remove, "f", func(ctx context.Context, d *client.Dir) error { return d.Remove(ctx, "f", vfs.If{}) }},
	{faultfs.Rename, "f", func(ctx context.Context, d *client.Dir) error {
		return d.Move(ctx, "f", d, "moved", vfs.If{}, vfs.If{})
	}},
	{faultfs.WriteAt, "f", func(ctx context.Context, d *client.Dir) error {
		_, err := d.OpenFile("f").WriteAt(ctx, []byte("x"), 0, vfs.If{})
		return err
	}},
	{faultfs.Append, "f", func(ctx context.Context, d *client.Dir) error {
		_, err := d.OpenFile("f").Append(ctx, []byte("x"), vfs.If{})
		return err
	}},
	{faultfs.Truncate, "f", func(ctx context.Context, d *client.Dir) error { return d.OpenFile("f").Truncate(ctx, 0, vfs.If{}) }},
}

// shut are the ways to shut a gate: by the host, or by a guest over the wire.
var shut = map[string]func(t *testing.T, g *granted) (*client.Dir, func() error){
	"revoke": func(_ *testing.T, g *granted) (*client.Dir, func() error) { return g.Dir, g.control.Revoke },
	"setWritable": func(_ *testing.T, g *granted) (*client.Dir, func() error) {
		return g.Dir, func() error { return g.control.SetWritable(false) }
	},
	"revoker": func(_ *testing.T, g *granted) (*client.Dir, func() error) {
		d, r := g.Revocable()
		return d, func() error { return r.Revoke(context.Background()) }
	},
}

// TestRevokeStuck: a revoke waits for a commit that has begun. After the grace
// period it answers busy and names what may still take effect. It never answers
// success before the commit has ended.
func TestRevokeStuck(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // they wait, so they run at once
	for i, c := range commits {
		for how, by := range shut {
			if i > 1 && how != "revoke" {
				continue
			}
			what := how + " during " + string(c.op) + " of " + c.name
			plan := new(faultfs.Plan)
			h := serveHere(t, func(d vfs.Dir) vfs.Dir { return faultfs.New(d, plan) })
			h.canary(h.served + "/d")
			d, revoke := by(t, h.guest("project/d"))
			ok(t, d.Cap().Settle(context.Background()))
			pause := plan.Pause(c.op, faultfs.Commit, 1)
			t.Cleanup(pause.Resume)
			done := make(chan struct{})
			go func() { defer close(done); c.do(context.Background(), d) }()
			all.Go(func() {
				defer pause.Resume()
				if !closes(pause.Reached()) {
					t.Errorf("%s: the change does not begin", what)
					return
				}
				stuck(t, h, what, c.name, d, revoke, pause.Resume, done)
			})
		}
	}
	all.Wait()
}

// stuck revokes d while the change name is held in its commit.
func stuck(t *testing.T, h *inProcess, what, name string, d *client.Dir, revoke func() error, resume func(), done <-chan struct{}) {
	before := take(t, h.served)
	begun := time.Now()
	err := revoke()
	if took := time.Since(begun); took < membrane.Grace-time.Second/2 || took > membrane.Grace+prompt {
		t.Errorf("%s: it answered after %v", what, took)
	}
	if is(t, what+": past the grace", err, "busy") && !strings.Contains(err.Error(), name) {
		t.Errorf("%s: what may still land is not listed: %v", what, err)
	}
	if diff := before.differs(take(t, h.served)); diff != "" {
		t.Errorf("%s: changed while it was stuck: %s", what, diff)
	}
	is(t, what+": another change meanwhile", byPut(context.Background(), d, "f2"), "revoked readOnly")
	again := make(chan error, 1)
	go func() { again <- revoke() }()
	select {
	case err := <-again:
		t.Errorf("%s: asked again, it answered at once: %v", what, err)
	case <-time.After(200 * time.Millisecond):
	}
	resume()
	is(t, what+": asked again", <-again, "ok")
	landed := take(t, h.served)
	if before.differs(landed) == "" {
		t.Errorf("%s: the change that had begun has not landed", what)
	}
	<-done
	time.Sleep(50 * time.Millisecond)
	if diff := landed.differs(take(t, h.served)); diff != "" {
		t.Errorf("%s: changed after the answer: %s", what, diff)
	}
}

// TestRevokeWaits: within the grace period a revoke answers success as soon as
// the commit has ended, and not before. That a guest has disconnected makes no
// difference. What was only staged is dropped.
func TestRevokeWaits(t *testing.T) {
	t.Parallel()
	plan := new(faultfs.Plan)
	h := serveHere(t, func(d vfs.Dir) vfs.Dir { return faultfs.New(d, plan) })
	h.canary(h.served + "/d")
	for _, c := range commits {
		g := h.guest("project/d")
		pause := plan.Pause(c.op, faultfs.Commit, 1)
		early := plan.Pause(faultfs.Replace, faultfs.Before, map[bool]int{true: 2, false: 1}[c.op == faultfs.Replace])
		changed := make(chan error, 1)
		go func() { changed <- c.do(context.Background(), g.Dir) }()
		if !closes(pause.Reached()) {
			t.Fatal("the change does not begin")
		}
		staged := make(chan error, 1)
		go func() { staged <- byPut(context.Background(), g.Dir, "late") }()
		if !closes(early.Reached()) {
			t.Fatal("the other change does not begin")
		}
		revoked := make(chan error, 1)
		go func() { revoked <- g.control.Revoke() }()
		select {
		case err := <-revoked:
			t.Errorf("%s: a revoke answered %v while a change was under way", c.op, err)
		case <-time.After(100 * time.Millisecond):
		}
		g.conn.Close()
		pause.Resume()
		is(t, string(c.op)+": revoke", <-revoked, "ok")
		before := take(t, h.served)
		early.Resume()
		<-changed
		<-staged
		time.Sleep(20 * time.Millisecond)
		if diff := before.differs(take(t, h.served)); diff != "" {
			t.Errorf("%s: changed after the answer: %s", c.op, diff)
		}
		plan.Clear()
		h.restore()
	}
}

// restore makes what the changes of commits need and have removed.
func (h *inProcess) restore() {
	for _, name := range []string{"new", "moved", "late"} {
		ok(h, os.RemoveAll(h.served+"/d/"+name))
	}
	h.canary(h.served + "/d")
}
