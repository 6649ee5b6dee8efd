package faultfs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/vfstest"
)

func newTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	s := memory.New(memory.Limits{})
	vfstest.Fill(t, s.Root(), tree,
		vfstest.Symlink(s.Root()),
		vfstest.SetExec(s.Root()))
	return s.Root()
}

// Without faults nothing is different.
func TestSuite(t *testing.T) {
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return faultfs.New(newTree(t, tree), new(faultfs.Plan))
	}})
}

var errFault = vfs.Errorf(vfs.Busy, "planned")

func put(ctx context.Context, d vfs.Dir, name, data string) error {
	_, err := d.Replace(ctx, name, strings.NewReader(data), vfs.If{})
	return err
}

func has(t *testing.T, d vfs.Dir, name, want string) {
	t.Helper()
	n, err := d.Lookup(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	k, _ := n.(vfs.File).ReadAt(t.Context(), p, 0)
	if got := string(p[:k]); got != want {
		t.Errorf("%s holds %q, want %q", name, got, want)
	}
}

func TestStages(t *testing.T) {
	for _, c := range []struct {
		stage faultfs.Stage
		want  string
	}{{faultfs.Before, "old"}, {faultfs.Commit, "old"}, {faultfs.After, "new"}} {
		inner := newTree(t, vfstest.Tree{"f": {Data: "old"}})
		plan := new(faultfs.Plan)
		d := faultfs.New(inner, plan)
		plan.Fail(faultfs.Replace, c.stage, 1, errFault)
		if err := put(t.Context(), d, "f", "new"); !errors.Is(err, errFault) {
			t.Errorf("stage %d: %v, want the fault", c.stage, err)
		}
		has(t, inner, "f", c.want)
		if err := put(t.Context(), d, "f", "next"); err != nil {
			t.Errorf("stage %d: the second Replace: %v", c.stage, err)
		}
	}
}

func TestNth(t *testing.T) {
	plan := new(faultfs.Plan)
	d := faultfs.New(newTree(t, vfstest.Tree{}), plan)
	plan.Fail(faultfs.Mkdir, faultfs.Before, 3, errFault)
	plan.Fail(faultfs.Create, faultfs.Commit, 0, errFault)
	for i, name := range []string{"a", "b", "c", "d"} {
		_, err := d.Mkdir(t.Context(), name)
		if failed := err != nil; failed != (i == 2) {
			t.Errorf("Mkdir %d: %v", i+1, err)
		}
		if _, err := d.Create(t.Context(), name+"f"); !errors.Is(err, errFault) {
			t.Errorf("Create %d: %v, want the fault", i+1, err)
		}
	}
	plan.Clear()
	if _, err := d.Create(t.Context(), "f"); err != nil {
		t.Errorf("Create after Clear: %v", err)
	}
}

// Every operation of every node reached through the Dir has its faults.
func TestEveryOperation(t *testing.T) {
	plan := new(faultfs.Plan)
	root := faultfs.New(newTree(t, vfstest.Tree{"d/f": {Data: "f"}, "d/l": {Link: "f"}}), plan)
	ctx := t.Context()
	lookup := func(d vfs.Dir, name string) vfs.Node {
		t.Helper()
		n, err := d.Lookup(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	d := lookup(root, "d").(vfs.Dir)
	f, l := lookup(d, "f").(vfs.File), lookup(d, "l").(vfs.Link)
	c, err := vfs.Open(ctx, f)
	if err != nil {
		t.Fatal(err)
	}
	list := func() (err error) {
		for _, err = range d.List(ctx) {
		}
		return err
	}
	for _, o := range []struct {
		op      faultfs.Op
		changes bool
		do      func() error
	}{
		{faultfs.Stat, false, func() error { _, err := d.Stat(ctx); return err }},
		{faultfs.Stat, false, func() error { _, err := f.Stat(ctx); return err }},
		{faultfs.Stat, false, func() error { _, err := l.Stat(ctx); return err }},
		{faultfs.Lookup, false, func() error { _, err := d.Lookup(ctx, "f"); return err }},
		{faultfs.List, false, list},
		{faultfs.Entry, false, list},
		{faultfs.Create, true, func() error { _, err := d.Create(ctx, "new"); return err }},
		{faultfs.Mkdir, true, func() error { _, err := d.Mkdir(ctx, "new"); return err }},
		{faultfs.Replace, true, func() error { return put(ctx, d, "f", "x") }},
		{faultfs.Replace, true, func() error {
			_, err := f.Replace(ctx, strings.NewReader("x"), vfs.If{})
			return err
		}},
		{faultfs.Install, true, func() error {
			_, err := vfs.Install(ctx, d, "f", strings.NewReader("x"), true, vfs.If{})
			return err
		}},
		{faultfs.Symlink, true, func() error { return vfs.Symlink(ctx, d, "new", "f") }},
		{faultfs.Remove, true, func() error { return d.Remove(ctx, "f", vfs.If{}) }},
		{faultfs.Rename, true, func() error { return d.Rename(ctx, "f", root, "g", vfs.If{}, vfs.If{}) }},
		{faultfs.ReadAt, false, func() error { _, err := f.ReadAt(ctx, make([]byte, 1), 0); return err }},
		{faultfs.WriteAt, true, func() error { _, err := f.WriteAt(ctx, []byte("x"), 0, vfs.If{}); return err }},
		{faultfs.Truncate, true, func() error { return f.Truncate(ctx, 0, vfs.If{}) }},
		{faultfs.Append, true, func() error { _, err := vfs.Append(ctx, f, []byte("x"), vfs.If{}); return err }},
		{faultfs.Sync, false, func() error { return f.Sync(ctx) }},
		{faultfs.Version, false, func() error { _, err := vfs.VersionOf(ctx, f); return err }},
		{faultfs.Open, false, func() error { _, err := vfs.Open(ctx, f); return err }},
		{faultfs.Content, false, func() error { _, err := c.ReadAt(make([]byte, 1), 0); return err }},
		{faultfs.Target, false, func() error { _, err := l.Target(ctx); return err }},
		{faultfs.Close, false, func() error { return lookup(d, "f").Close() }},
	} {
		stages := []faultfs.Stage{faultfs.Before}
		if o.changes {
			stages = append(stages, faultfs.Commit)
		} else if o.op != faultfs.Entry {
			stages = append(stages, faultfs.After)
		}
		for _, stage := range stages {
			plan.Fail(o.op, stage, 1, errFault)
			if err := o.do(); !errors.Is(err, errFault) {
				t.Errorf("%s at stage %d: %v, want the fault", o.op, stage, err)
			}
			plan.Clear()
		}
	}
	has(t, d, "f", "f")
	if err := d.Rename(ctx, "f", root, "g", vfs.If{}, vfs.If{}); err != nil {
		t.Errorf("Rename between two Dirs of a plan: %v", err)
	}
	plan.Fail(faultfs.Any, faultfs.Before, 1, errFault)
	if _, err := root.Stat(ctx); !errors.Is(err, errFault) {
		t.Errorf("Any: %v, want the fault", err)
	}
}

// A pause in the commit window holds the change after the caller's own committer was
// entered, and ignores the end of the context.
func TestPauseInCommit(t *testing.T) {
	inner := newTree(t, vfstest.Tree{"f": {Data: "old"}})
	plan := new(faultfs.Plan)
	d := faultfs.New(inner, plan)
	pause := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
	entered := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ctx = vfs.OnCommit(ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		close(entered)
		return change()
	})
	done := make(chan error, 1)
	go func() { done <- put(ctx, d, "f", "new") }()
	<-pause.Reached()
	select {
	case <-entered:
	default:
		t.Errorf("the pause comes before the caller's committer")
	}
	cancel()
	has(t, d, "f", "old")
	select {
	case err := <-done:
		t.Errorf("a paused Replace answers %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	pause.Resume()
	pause.Resume()
	if err := <-done; err != nil {
		t.Error(err)
	}
	has(t, d, "f", "new")
}

func TestPauseBeforeAndAfter(t *testing.T) {
	for stage, want := range map[faultfs.Stage]string{faultfs.Before: "old", faultfs.After: "new"} {
		inner := newTree(t, vfstest.Tree{"f": {Data: "old"}})
		plan := new(faultfs.Plan)
		pause := plan.Pause(faultfs.Replace, stage, 1)
		done := make(chan error, 1)
		go func() { done <- put(t.Context(), faultfs.New(inner, plan), "f", "new") }()
		<-pause.Reached()
		has(t, inner, "f", want)
		pause.Resume()
		if err := <-done; err != nil {
			t.Error(err)
		}
		has(t, inner, "f", "new")
	}
}
