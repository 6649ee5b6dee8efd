package vfs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// What was seen of a node is recalled by the same node, with the same context, and once.
func TestRecall(t *testing.T) {
	store := memory.New(memory.Limits{}).Root()
	a, err := store.Create(t.Context(), "a")
	check.OK(t, err)
	b, err := store.Create(t.Context(), "b")
	check.OK(t, err)

	ctx := vfs.Recalling(t.Context())
	vfs.Remember(ctx, a, vfs.Info{Size: 7})
	_, ok := vfs.Recall(ctx, b)
	if ok {
		t.Fatal("another node recalls what was seen")
	}
	_, ok = vfs.Recall(vfs.Recalling(t.Context()), a)
	if ok {
		t.Fatal("another operation recalls what was seen")
	}
	below, cancel := context.WithCancel(ctx)
	info, ok := vfs.Recall(below, a)
	if !ok {
		t.Fatal("a context below does not recall what was seen")
	}
	if info.Size != 7 {
		t.Fatalf("%d bytes, want 7", info.Size)
	}
	_, ok = vfs.Recall(ctx, a)
	if ok {
		t.Fatal("the same was recalled twice")
	}
	cancel()
	if err := below.Err(); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want %v", err, context.Canceled)
	}

	if !vfs.IsTrying(vfs.Recalling(vfs.Trying())) {
		t.Fatal("Recalling loses Trying")
	}
	vfs.Remember(t.Context(), a, vfs.Info{Size: 7}) // nobody's
	_, ok = vfs.Recall(t.Context(), a)
	if ok {
		t.Fatal("a context that is not of Recalling recalls")
	}
}

// If a guard delays a Stat, it answers what is there after the delay.
func TestRecallBehindAGuard(t *testing.T) {
	dir := t.TempDir()
	f := filepath.Join(dir, "f")
	check.OK(t, os.WriteFile(f, []byte("old"), 0o600))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	defer s.Close()
	root := membrane.Guarded(s.Root(), nil, check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
		if op.Kind == membrane.OpStat {
			check.OK(t, os.Remove(f))
		}
		return do(ctx)
	}))
	ctx := vfs.Recalling(t.Context())
	n, err := vfs.Walk(ctx, root, "f")
	check.OK(t, err)
	defer n.Close()
	info, err := n.Stat(ctx)
	if got, want := vfs.CodeOf(err), vfs.NotFound; !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v: %v, want %v", info, got, want)
	}
}
