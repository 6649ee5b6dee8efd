package console_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// All conflicts reach the caller.
func TestConflicts(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	tree, err := fs.Materialize(t.Context(), "p", operator.Bounds{}, nil)
	ok(t, err)
	defer tree.Close()
	many := &diff.Conflicts{}
	for i := range 5000 {
		many.Paths = append(many.Paths, diff.Conflict{
			Path: fmt.Sprintf("dir/\xff%04d", i), Why: "it was changed", Is: diff.State{Kind: diff.Foreign},
			Was: diff.State{Kind: vfs.FileKind, Version: version(1)}, Becomes: diff.State{Kind: vfs.LinkKind, Target: "x"},
		})
	}
	methods := map[string]func() error{
		"apply": func() error { _, err := fs.Apply(t.Context(), "p", operator.ApplyOptions{}, nil); return err },
		"undo":  func() error { return fs.Undo(t.Context(), "p", "id") },
		"sync":  func() error { _, _, err := tree.Sync(t.Context(), nil); return err },
	}
	for _, c := range []struct {
		name string
		err  error
		want error // nil: many
	}{
		{"alone", many, nil},
		{"joined with nothing", errors.Join(nil, many), nil},
		{"wrapped", fmt.Errorf("so: %w", many), nil},
		{"below a path", &vfs.Error{Code: vfs.Conflict, Path: "p", Cause: many}, nil},
		{"beside a failure", errors.Join(many, vfs.Errorf(vfs.Limit, "full")), vfs.Conflict},
		{"as the cause of something else", &vfs.Error{Code: vfs.Busy, Msg: "later", Cause: many}, vfs.Busy},
		{"of no path", &diff.Conflicts{}, vfs.Conflict},
		{"another conflict", vfs.Errorf(vfs.Conflict, "the ref moved"), vfs.Conflict},
	} {
		h.err = c.err
		for name, call := range methods {
			err := call()
			got, listed := errors.AsType[*diff.Conflicts](err)
			switch {
			case c.want == nil && !listed:
				t.Errorf("%s, %s: %v", c.name, name, err)
			case c.want == nil:
				same(t, c.name+", "+name, got, many)
				is(t, name, err, vfs.Conflict)
			case listed || !errors.Is(err, c.want):
				t.Errorf("%s, %s: %v, want %v", c.name, name, err, c.want)
			}
		}
	}
}

// If there are more than fit into a message, the result says so.
func TestConflictsBeyondAMessage(t *testing.T) {
	h := example()
	fs := raw(t, h)
	defer fs.Release()
	many := &diff.Conflicts{}
	for i := range 10_000 {
		many.Paths = append(many.Paths, diff.Conflict{Path: fmt.Sprintf("%s%d", strings.Repeat("d/", 1000), i)})
	}
	h.err = many
	ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_apply, nil, func(r schema.VirtualFs_apply_Results, _ *vat.Caps) error {
		l, err := r.Conflicts()
		ok(t, err)
		if l.Len() == 0 || l.Len() == len(many.Paths) || r.ConflictsTotal() != uint64(len(many.Paths)) {
			t.Errorf("%d of %d conflicts, want some of %d", l.Len(), r.ConflictsTotal(), len(many.Paths))
		}
		if id, err := r.Id(); err != nil || id != "" || r.Changes() != 0 {
			t.Errorf("in spite of conflicts it answers id %q, %d changes, %v", id, r.Changes(), err)
		}
		return nil
	}))
}
