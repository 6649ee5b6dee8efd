package vfstest

import (
	"context"
	"slices"
	"sync"
	"time"

	"capd/vfs"
)

var commitRules = []rule{
	{"Commit/Refused", local, testCommitRefused},
	{"Commit/Effect", local, testCommitEffect},
	{"Commit/Window", local, testCommitWindow},
	{"Commit/Paused", local, testCommitPaused},
	{"Commit/CancelledWithin", local, testCommitCancelledWithin},
}

// eachChange runs test for every change on a fresh sample.
func (w *world) eachChange(test func(w *world, c change, f vfs.File, d vfs.Dir)) {
	all := slices.Clone(changes)
	for _, c := range hostChanges {
		if c.links && w.can.links || !c.links && w.can.installs {
			all = append(all, c)
		}
	}
	for _, c := range all {
		if c.links && w.s.NoLinks {
			continue
		}
		w.make(sample)
		test(w, c, w.file("f"), w.dir("d"))
	}
}

func (w *world) committing(c vfs.Committer) *world { return w.with(vfs.OnCommit(w.ctx, c)) }

// testCommitRefused refuses every commit.
func testCommitRefused(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		before := w.picture()
		asked := 0
		refusing := w.committing(func(vfs.Effect, func() (vfs.Effect, error)) (vfs.Effect, error) {
			asked++
			return vfs.Effect{}, vfs.Errorf(vfs.AskDenied, "refused")
		})
		for range 2 {
			w.is(c.name+", refused", c.do(refusing, f, d), vfs.AskDenied)
		}
		if asked == 0 {
			w.Errorf("%s does not go through Commit", c.name)
		}
		w.unchanged(c.name+", refused", before)
		w.ok(c.name+", after it was refused", c.do(w, f, d))
	})
}

// ledger is a committer that adds up what it sees. Safe for concurrent use.
type ledger struct {
	mu         sync.Mutex
	total      vfs.Effect // of what was done
	calls      int
	overdrawn  vfs.Effect // by how much a change grew beyond what it declared
	undeclared bool
}

func (l *ledger) commit(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
	got, err := change()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if err == nil {
		l.total.Bytes += got.Bytes
		l.total.Nodes += got.Nodes
		if got.Bytes > e.Bytes || got.Nodes > e.Nodes {
			l.overdrawn, l.undeclared = got, true
		}
	}
	return got, err
}

// settle checks that the ledger and the tree agree.
func (w *world) settle(what string, l *ledger, before picture) {
	w.Helper()
	now := w.picture().total
	if grown := (vfs.Effect{Bytes: now.Bytes - before.total.Bytes, Nodes: now.Nodes - before.total.Nodes}); l.total != grown {
		w.Errorf("%s: Commit was told of %+v, but the store grew by %+v", what, l.total, grown)
	}
	if l.undeclared {
		w.Errorf("%s: a change grew by %+v, more than it declared", what, l.overdrawn)
	}
}

func testCommitEffect(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		before := w.picture()
		var l ledger
		w.ok(c.name, c.do(w.committing(l.commit), f, d))
		if l.calls == 0 {
			w.Errorf("%s does not go through Commit", c.name)
		}
		w.settle(c.name, &l, before)
	})
}

// patience is how long a test waits for something that the store may block.
const patience = 100 * time.Millisecond

// testCommitWindow reads the store from within the committer, with a reader of its own.
// The store may block that reader.
func testCommitWindow(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		before, root := w.picture(), w.root
		var wg sync.WaitGroup
		early, ran := "", false
		watching := w.committing(func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
			seen := make(chan string, 1)
			wg.Go(func() {
				now, err := look(w.ctx, root)
				if err == nil {
					seen <- differ(before, now)
				}
			})
			select {
			case early = <-seen:
			case <-time.After(patience):
			}
			got, err := change()
			ran = ran || err == nil
			return got, err
		})
		w.ok(c.name, c.do(watching, f, d))
		wg.Wait()
		if early != "" {
			w.Errorf("%s is seen before Commit: %s", c.name, early)
		}
		if !ran {
			w.Errorf("%s succeeded and its committed change did not", c.name)
		}
		if differ(before, w.picture()) == "" {
			w.Errorf("%s changed nothing", c.name)
		}
	})
}

// testCommitPaused reads while a commit waits. Readers see the old state or wait, and
// see the new state afterwards.
func testCommitPaused(w *world) {
	w.make(sample)
	const old, fresh = "the old content", "the new content"
	reached, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	pausing := w.committing(func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		once.Do(func() { close(reached); <-resume })
		return change()
	})
	done := make(chan error, 1)
	go func() { done <- replaces("f", fresh, vfs.If{})(pausing, nil, nil) }()
	<-reached
	reads := make(chan string, 1)
	f := w.file("f")
	go func() {
		got, err := readAll(w.ctx, f)
		if err != nil {
			got = err.Error()
		}
		reads <- got
	}()
	select {
	case got := <-reads:
		if got != old {
			w.Errorf("while a commit waits a reader sees %s", short(got))
		}
		reads <- old
	case <-time.After(patience):
	}
	close(resume)
	w.ok("Replace", <-done)
	if got := <-reads; got != old && got != fresh {
		w.Errorf("a reader that waited for a commit sees %s", short(got))
	}
	w.reads(f, fresh)
}

// testCommitCancelledWithin ends the context after the commit has begun, which is too
// late to stop it.
func testCommitCancelledWithin(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		before := w.picture()
		ctx, cancel := context.WithCancel(w.ctx)
		var l ledger
		late := w.with(vfs.OnCommit(ctx, func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
			cancel()
			return l.commit(e, change)
		}))
		err := c.do(late, f, d)
		if err != nil { // it may return an error, but the change was made
			w.fit(c.name, err)
		}
		if differ(before, w.picture()) == "" {
			w.Errorf("%s, cancelled when its commit had begun, was not done", c.name)
		}
		w.settle(c.name, &l, before)
		cancel()
	})
}
