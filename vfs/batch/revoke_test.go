package batch_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/membrane"
)

// guarded returns a view of a store, the same store without it, and the view's gate.
func guarded(t *testing.T, guards ...membrane.Guard) (view, inner vfs.Dir, gate *membrane.Gate) {
	t.Helper()
	s := memory.New(memory.Limits{})
	fill(t, s.Root(), before)
	gate = membrane.NewGate()
	return membrane.Guarded(s.Root(), gate, guards...), s.Root(), gate
}

// After a revoke before the first change, nothing changes.
func TestRevokedBefore(t *testing.T) {
	view, inner, gate := guarded(t)
	j := journal()
	_, err := batch.Run(t.Context(), j, view, changes(before, before.with(faultEdit)), batch.Options{Step: func(step string) {
		if step == "staged" {
			ok(t, gate.Revoke())
		}
	}})
	if vfs.CodeOf(err) != vfs.Revoked {
		t.Errorf("%v, want revoked", err)
	}
	holds(t, inner, before)
	empty(t, j)
}

// A revoke waits until a batch that has begun is done.
func TestRevokedMidway(t *testing.T) {
	view, inner, gate := guarded(t)
	j := journal()
	steps, revoked := 0, make(chan error, 1)
	_, err := batch.Run(t.Context(), j, view, changes(before, before.with(faultEdit)), batch.Options{Step: func(step string) {
		if steps++; steps == 5 {
			go func() { revoked <- gate.Revoke() }()
			for !gate.Revoked() {
				time.Sleep(time.Millisecond)
			}
		}
		select {
		case err := <-revoked:
			t.Errorf("the revoke answered %v before the batch was over, at %s", err, step)
		default:
		}
	}})
	ok(t, err)
	ok(t, <-revoked)
	holds(t, inner, before.with(faultEdit))
	empty(t, j)
}

// A batch that fails midway is undone, although its gate was shut meanwhile.
func TestRevokedAndUndone(t *testing.T) {
	view, inner, gate := guarded(t)
	j := journal()
	revoked := make(chan error, 1)
	_, err := batch.Run(t.Context(), j, view, changes(before, before.with(faultEdit)), batch.Options{Step: func(step string) {
		if step == "put a" {
			go func() { revoked <- gate.Revoke() }()
			for !gate.Revoked() {
				time.Sleep(time.Millisecond)
			}
			put(t, inner, "b", "another's")
		}
	}})
	inConflict(t, err, "b")
	ok(t, <-revoked)
	holds(t, inner, before.with(tree{"b": "file:another's"}))
	empty(t, j)
}

// If a guard refuses any of the changes, this comes before the first change.
func TestGuardRefuses(t *testing.T) {
	made := 0
	view, inner, _ := guarded(t, membrane.Guard{Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
		if op.Kind.Changes() && op.Batch != membrane.Ahead {
			made++
		}
		if op.Kind == membrane.OpRemove && op.Path == "b" {
			return vfs.Effect{}, vfs.AskDenied
		}
		return do(ctx)
	}})
	j := journal()
	_, err := batch.Run(t.Context(), j, view, changes(before, before.with(faultEdit)), batch.Options{})
	if vfs.CodeOf(err) != vfs.AskDenied || !strings.Contains(err.Error(), "b") {
		t.Errorf("%v, want askDenied for b", err)
	}
	if made > 0 {
		t.Errorf("%d changes were made", made)
	}
	holds(t, inner, before)
	empty(t, j)
}
