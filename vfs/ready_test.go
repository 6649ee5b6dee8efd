package vfs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// noting is a Change that notes what it is asked.
type noting struct {
	name  string
	notes *[]string
	err   error
}

func (n noting) note(what string) { *n.notes = append(*n.notes, n.name+" "+what) }

func (n noting) Stands() bool { return false }

func (n noting) Asks(why string) error {
	n.note(why)
	return n.err
}

func (n noting) Ready(_ context.Context, s vfs.Staged) (func() error, error) {
	what := "ready"
	if s.Late {
		what = "late"
	}
	n.note(what)
	return func() error { n.note("on disk"); return nil }, n.err
}

func changing(ctx context.Context, changes ...vfs.Change) context.Context {
	call := vfs.CallOf(ctx)
	for _, c := range changes {
		call.OnChange(c)
	}
	return vfs.WithCall(ctx, call)
}

func noted(t *testing.T, got []string, want string) {
	t.Helper()
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// The Change that a call had first is asked first, and each of them once.
func TestReadyOnce(t *testing.T) {
	var notes []string
	ctx := changing(t.Context(), noting{"outer", &notes, nil}, noting{"inner", &notes, nil})
	check.OK(t, vfs.Asks(ctx, "why"))
	for range 3 {
		check.OK(t, vfs.Ready(ctx, vfs.Staged{}))
		check.OK(t, vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) { return vfs.Effect{}, nil }))
	}
	noted(t, notes, "outer why, inner why, outer ready, inner ready, outer on disk, inner on disk")
}

// A part of a call that adds a Change of its own does not ask the other one again.
func TestReadyPart(t *testing.T) {
	var notes []string
	ctx := changing(t.Context(), noting{"outer", &notes, nil})
	check.OK(t, vfs.Ready(ctx, vfs.Staged{}))
	check.OK(t, vfs.Ready(changing(ctx, noting{"part", &notes, nil}), vfs.Staged{}))
	noted(t, notes, "outer ready, outer on disk, part ready, part on disk")
}

// Commit has a change answered for that its store did not. What is refused once is not
// committed later.
func TestCommitReady(t *testing.T) {
	var notes []string
	made := 0
	commit := func(ctx context.Context) error {
		return vfs.Commit(ctx, vfs.Effect{}, func() (vfs.Effect, error) { made++; return vfs.Effect{}, nil })
	}
	check.OK(t, commit(changing(t.Context(), noting{"a", &notes, nil})))
	refused := changing(t.Context(), noting{"b", &notes, vfs.AskDenied})
	for range 2 {
		check.Is(t, "the answer", commit(refused), vfs.AskDenied)
		check.Is(t, "the answer", vfs.Ready(refused, vfs.Staged{}), vfs.AskDenied)
	}
	if made != 1 {
		t.Errorf("%d changes were made, want 1", made)
	}
	noted(t, notes, "a late, a on disk, b late")
}

// staged is a content that says when it is synced.
type staged struct {
	vfs.StagedContent
	size   int64
	synced chan bool
	err    error
}

func (s *staged) Size() int64 { return s.size }

func (s *staged) Sync(context.Context) error {
	close(s.synced)
	return s.err
}

// changeFunc is a vfs.Change that needs no approval.
type changeFunc func() (func() error, error)

func (changeFunc) Asks(string) error                                         { return nil }
func (changeFunc) Stands() bool                                              { return false }
func (c changeFunc) Ready(context.Context, vfs.Staged) (func() error, error) { return c() }

// What is staged is synced before anybody waits for the record, and beside the sum of a
// long content.
func TestReadySyncs(t *testing.T) {
	fails := errors.New("fails")
	for _, c := range []struct {
		what string
		size int64
		err  error
	}{{"short", 4 << 10, nil}, {"long", 1 << 20, nil}, {"short, not synced", 4 << 10, fails}, {"long, not synced", 1 << 20, fails}} {
		s := &staged{size: c.size, synced: make(chan bool), err: c.err}
		ctx := changing(t.Context(), changeFunc(func() (func() error, error) {
			if c.size > 32<<10 {
				<-s.synced
			}
			return func() error { <-s.synced; return nil }, nil
		}))
		if err := vfs.Ready(ctx, vfs.Staged{Content: s}); err != c.err {
			t.Errorf("%s: %v, want %v", c.what, err, c.err)
		}
	}
	s := &staged{size: 1 << 20, synced: make(chan bool)}
	err := vfs.Ready(changing(t.Context(), changeFunc(func() (func() error, error) { return nil, vfs.AskDenied })), vfs.Staged{Content: s})
	check.Is(t, "the answer", err, vfs.AskDenied)
	<-s.synced // or it would go on when Ready has returned
}

// Without a Change, Ready syncs and costs nothing, and nobody can be asked.
func TestReadyWithout(t *testing.T) {
	s := &staged{synced: make(chan bool)}
	check.OK(t, vfs.Ready(t.Context(), vfs.Staged{Content: s}))
	<-s.synced
	check.Is(t, "the answer", vfs.Asks(t.Context(), "why"), vfs.AskDenied)
	ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) { return change() })
	n := testing.AllocsPerRun(100, func() {
		if vfs.NeedsReady(ctx) || vfs.Ready(ctx, vfs.Staged{Grows: vfs.Effect{Nodes: 1}}) != nil {
			t.Error("a change without a Change needs an answer")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// Aside gives up everything, the outermost first, and takes it again in the opposite
// order. Meanwhile others have the call's turn.
func TestAside(t *testing.T) {
	h := meter.NewHost(nil)
	var notes []string
	call := vfs.Call{}
	for _, what := range []string{"line", "slot"} {
		call.OnAside(func(wait func()) error {
			notes = append(notes, "no "+what)
			wait()
			notes = append(notes, what)
			return nil
		})
	}
	m := h.Grant("waits", nil)
	ctx, turn, err := m.Begin(t.Context(), meter.Heavy)
	check.OK(t, err)
	defer turn.End()
	others := make([]*meter.Turn, 0, 16)
	check.OK(t, vfs.Aside(vfs.WithCall(ctx, call), func() {
		for range h.Turns(meter.Heavy) {
			_, other, err := h.Grant("works", nil).Begin(t.Context(), meter.Heavy)
			check.OK(t, err)
			others = append(others, other)
		}
		notes = append(notes, "waits")
		for _, o := range others {
			o.End()
		}
	}))
	noted(t, notes, "no line, no slot, waits, slot, line")
	if n := m.Used(meter.Waits); n != 0 {
		t.Errorf("%d waits are held afterwards", n)
	}
}

// Probe asks every committer and changes nothing.
func TestProbe(t *testing.T) {
	full := vfs.Errorf(vfs.Quota, "full")
	asked := []vfs.Effect{}
	ctx := vfs.OnCommit(t.Context(), func(e vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		if asked = append(asked, e); e.Bytes > 10 {
			return vfs.Effect{}, full
		}
		return change()
	})
	check.OK(t, vfs.Probe(t.Context(), vfs.Effect{Bytes: 100}))
	check.OK(t, vfs.Probe(ctx, vfs.Effect{Bytes: 10}))
	if err := vfs.Probe(ctx, vfs.Effect{Bytes: 11}); err != full {
		t.Errorf("a probe of too much: %v", err)
	}
	if !slices.Equal(asked, []vfs.Effect{{Bytes: 10}, {Bytes: 11}}) {
		t.Errorf("the committer was asked %v", asked)
	}
}

// A store whose changes are refused when they are ready has staged nothing that stays.
func TestReadyStagesNothing(t *testing.T) {
	s := memory.New(memory.Limits{Bytes: 8})
	for range 100 { // more would not be staged at once
		_, err := s.Root().Replace(changing(t.Context(), noting{"a", new([]string), vfs.AskDenied}), "f", strings.NewReader("12345678"), vfs.If{})
		check.Is(t, "the answer", err, vfs.AskDenied)
	}
	_, err := s.Root().Replace(t.Context(), "f", strings.NewReader("12345678"), vfs.If{})
	check.OK(t, err)
}
