package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	schema "capd/capnp"
	"capd/client/console"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// calls calls every method of VirtualFs, by its name in the schema, and gives the call
// that the host is to receive.
var calls = map[string]struct {
	call  func(context.Context, *console.VirtualFs) (any, error)
	asked []any
	want  func(*fake) any
}{
	"mount": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			return nil, fs.Mount(ctx, "a/b", "memory:?max=1MiB", attenuation)
		},
		asked: []any{"a/b", "memory:?max=1MiB", attenuation},
	},
	"unmount": {
		call:  func(ctx context.Context, fs *console.VirtualFs) (any, error) { return nil, fs.Unmount(ctx, "a/b") },
		asked: []any{"a/b"},
	},
	"mounts": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) { return fs.Mounts(ctx) },
		want: func(f *fake) any { return f.mounts },
	},
	"root": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			d, ctl, err := fs.Root(ctx)
			if err == nil {
				d.Close()
				ctl.Close()
			}
			return nil, err
		},
	},
	"diff": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			all := []diff.Change{}
			_, err := fs.Diff(ctx, "p", operator.DiffOptions{Paths: []string{"x", "y/z"}, From: "v1", To: "v2", Text: true}, "a", collect(&all))
			return all, err
		},
		asked: []any{"p", operator.DiffOptions{Paths: []string{"x", "y/z"}, From: "v1", To: "v2", Text: true}, "a"},
		want:  func(f *fake) any { return f.changes },
	},
	"apply": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			return fs.Apply(ctx, "p", operator.ApplyOptions{Paths: []string{"x"}, If: operator.Review{1, 2}}, nil)
		},
		asked: []any{"p", operator.ApplyOptions{Paths: []string{"x"}, If: operator.Review{1, 2}}, false},
		want:  func(f *fake) any { return f.applied },
	},
	"undo": {
		call:  func(ctx context.Context, fs *console.VirtualFs) (any, error) { return nil, fs.Undo(ctx, "p", "id") },
		asked: []any{"p", "id"},
	},
	"revert": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			return fs.Revert(ctx, "p", []string{"x", "y/z"})
		},
		asked: []any{"p", []string{"x", "y/z"}},
		want:  func(f *fake) any { return f.count },
	},
	"commit": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			return fs.Commit(ctx, "p", commit)
		},
		asked: []any{"p", commit},
		want:  func(f *fake) any { return f.commit },
	},
	"snapshot": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			return fs.Snapshot(ctx, "p", "cas:s", "pin", func(int64, int64) {})
		},
		asked: []any{"p", "cas:s", "pin", true},
		want:  func(f *fake) any { return f.snapshot },
	},
	"materialize": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			tree, err := fs.Materialize(ctx, "p", operator.Bounds{Entries: 1, Bytes: 2}, nil)
			if err != nil {
				return nil, err
			}
			return tree.Path(), tree.Close()
		},
		asked: []any{"p", operator.Bounds{Entries: 1, Bytes: 2}, false},
		want:  func(*fake) any { return "/private/tree" },
	},
	"help": {
		call: func(ctx context.Context, fs *console.VirtualFs) (any, error) {
			text, err := fs.Help(ctx, "apply")
			return strings.HasPrefix(text, "# VirtualFs.apply\n"), err
		},
		want: func(*fake) any { return true },
	},
}

var (
	attenuation = operator.Attenuation{ReadOnly: true, NoLinks: true, Deny: []string{"**/.env", "x"}, Ask: []string{}, Bytes: 1 << 40, Nodes: 7}
	commit      = operator.Commit{Message: "Fix\n\nit", Author: "A", Email: "a@example.org", Ref: "main", Old: "0123", If: operator.Review{1, 2}}
)

func collect(all *[]diff.Change) func(diff.Change) bool {
	return func(c diff.Change) bool {
		*all = append(*all, c)
		return true
	}
}

func version(b byte) (v vfs.Version) { v[0] = b; return v }

// example is a host with an example of everything.
func example() *fake {
	return &fake{
		closed: make(chan struct{}, 1),
		tree:   membrane.Guarded(memory.New(memory.Limits{}).Root(), nil),
		mounts: []operator.Mount{
			{Path: "", URL: "memory:", Kind: "memory"},
			{Path: "p", URL: "overlay:physical:/x", Kind: "overlay", Attenuation: attenuation, Detail: "d", Changes: true},
			{Path: "q", URL: "git:/x#main", Kind: "git", Attenuation: operator.Attenuation{Deny: []string{}, Ask: []string{"a"}}},
		},
		changes: []diff.Change{
			{Path: "added", Kind: diff.Added, Is: diff.State{Kind: vfs.FileKind, Version: version(1), Exec: true}, Text: "+a\n"},
			{Path: "mode", Kind: diff.Mode, Was: diff.State{Kind: vfs.FileKind, Version: version(1)}, Is: diff.State{Kind: vfs.FileKind, Version: version(1), Exec: true}},
			{Path: "modified", Kind: diff.Modified, Was: diff.State{Kind: vfs.FileKind, Version: version(1)}, Is: diff.State{Kind: vfs.FileKind, Version: version(2)}},
			{Path: "raw\xff", From: "from\xfe", Kind: diff.Renamed, Was: diff.State{Kind: vfs.DirKind}, Is: diff.State{Kind: vfs.DirKind}},
			{Path: "removed", Kind: diff.Removed, Was: diff.State{Kind: vfs.LinkKind, Target: "to\xff"}},
			{Path: "type", Kind: diff.Type, Was: diff.State{Kind: vfs.FileKind}, Is: diff.State{Kind: diff.Foreign}},
		},
		skipped:  []diff.Skipped{{Path: "fifo\xff", Why: "a FIFO"}, {Path: "link", Why: "a new link"}},
		applied:  operator.Applied{ID: "b1", Changes: 3, Dropped: []string{"d"}, DroppedTotal: 2},
		count:    5,
		commit:   "abcdef",
		snapshot: operator.Snapshot{Digest: strings.Repeat("ab", 32), Size: 1, Files: 2, Bytes: 1 << 40, New: 4},
	}
}

func TestEveryMethod(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	for _, method := range methodsOf(t, schema.VirtualFs_TypeID) {
		c, there := calls[method]
		if !there {
			t.Errorf("no call of %s", method)
			continue
		}
		t.Run(method, func(t *testing.T) {
			got, err := c.call(t.Context(), fs)
			ok(t, err)
			if c.want != nil {
				same(t, "it answers", got, c.want(h))
			}
			if method != "help" {
				h.asked(t, method, c.asked...)
			}
		})
	}
	soon(t, "the tree that was materialized is closed", h.closed)
}

func methodsOf(t *testing.T, iface uint64) []string {
	t.Helper()
	for _, i := range schema.Interfaces {
		if i.ID == iface {
			return i.Methods
		}
	}
	t.Fatal("no such interface")
	return nil
}

// Every error of the host arrives unchanged.
func TestErrors(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	for _, code := range vfs.Codes {
		if code == vfs.Internal {
			continue // it is logged
		}
		h.err = vfs.At("a/b", vfs.Errorf(code, "do that next"))
		for method, c := range calls {
			if method == "mounts" || method == "help" { // which fail not
				continue
			}
			_, err := c.call(t.Context(), fs)
			if vfs.CodeOf(err) != code || err.Error() != string(code)+": a/b: do that next" {
				t.Errorf("%s: %v, want %v", method, err, h.err)
			}
		}
	}
}

func TestNoVirtualFs(t *testing.T) {
	c := console.New(serve(t, nil)())
	defer c.Close()
	_, err := c.VirtualFs(t.Context())
	is(t, "of a host that has none", err, vfs.Unsupported)
	text, err := c.Help(t.Context(), "virtualFs")
	if ok(t, err); !strings.Contains(text, "fs") {
		t.Errorf("help says %q", text)
	}
}

func TestMaterialized(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	tree, err := fs.Materialize(t.Context(), "p", operator.Bounds{}, nil)
	ok(t, err)
	for _, method := range methodsOf(t, schema.Materialized_TypeID) {
		switch method {
		case "path":
			same(t, method, tree.Path(), "/private/tree")
		case "changes":
			changes, skipped, err := tree.Changes(t.Context())
			ok(t, err)
			same(t, method, changes, h.changes)
			same(t, method, skipped, h.skipped)
		case "sync":
			n, skipped, err := tree.Sync(t.Context(), func(int64, int64) {})
			ok(t, err)
			h.asked(t, method, true)
			same(t, method, n, h.count)
			same(t, method, skipped, h.skipped)
		case "help":
			text, err := tree.(*console.Materialized).Help(t.Context(), "sync")
			if ok(t, err); !strings.HasPrefix(text, "# Materialized.sync\n") {
				t.Errorf("help says %q", text)
			}
		default:
			t.Errorf("no call of %s", method)
		}
	}
	h.err = vfs.Errorf(vfs.Busy, "something writes there")
	_, _, err = tree.Changes(t.Context())
	is(t, "changes", err, vfs.Busy)
	_, _, err = tree.Sync(t.Context(), nil)
	is(t, "sync", err, vfs.Busy)
	select {
	case <-h.closed:
		t.Error("the directory is gone while it is held")
	default:
	}
	ok(t, tree.Close())
	soon(t, "the directory is removed", h.closed)
}

// A tree ends with the connection on which it was made.
func TestMaterializedGoesWithItsConnection(t *testing.T) {
	h := example()
	c := console.New(serve(t, h)())
	fs, err := c.VirtualFs(t.Context())
	ok(t, err)
	_, err = fs.Materialize(t.Context(), "p", operator.Bounds{}, nil)
	ok(t, err)
	ok(t, c.Close())
	soon(t, "the directory is removed", h.closed)
}

// Both sides refuse invalid requests. A request that does not fit into a message is not
// sent, and the connection stays open.
func TestRefused(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	ctx := t.Context()
	long := strings.Repeat("x", vfs.MaxPath+1)
	many := slices.Repeat([]string{strings.Repeat("x", 4000)}, 1100)
	huge := strings.Repeat("x", 9<<20)
	none := []string{}
	for _, c := range []struct {
		name string
		err  func() error
		want vfs.Code
	}{
		{"mount: a negative bound", func() error { return fs.Mount(ctx, "p", "u", operator.Attenuation{Bytes: -1}) }, vfs.Invalid},
		{"mount: a long path", func() error { return fs.Mount(ctx, long, "u", operator.Attenuation{}) }, vfs.Limit},
		{"mount: a huge url", func() error { return fs.Mount(ctx, "p", huge, operator.Attenuation{}) }, vfs.TooLarge},
		{"mount: many patterns", func() error { return fs.Mount(ctx, "p", "u", operator.Attenuation{Ask: many}) }, vfs.TooLarge},
		{"unmount: a long path", func() error { return fs.Unmount(ctx, long) }, vfs.Limit},
		{"diff: no path", func() error { _, err := fs.Diff(ctx, "p", operator.DiffOptions{Paths: none}, "", nil); return err }, vfs.Invalid},
		{"diff: many paths", func() error { _, err := fs.Diff(ctx, "p", operator.DiffOptions{Paths: many}, "", nil); return err }, vfs.TooLarge},
		{"diff: a long place", func() error { _, err := fs.Diff(ctx, "p", operator.DiffOptions{}, long, nil); return err }, vfs.Limit},
		{"diff: a huge revision", func() error { _, err := fs.Diff(ctx, "p", operator.DiffOptions{To: huge}, "", nil); return err }, vfs.TooLarge},
		{"apply: no path", func() error { _, err := fs.Apply(ctx, "p", operator.ApplyOptions{Paths: none}, nil); return err }, vfs.Invalid},
		{"apply: many paths", func() error { _, err := fs.Apply(ctx, "p", operator.ApplyOptions{Paths: many}, nil); return err }, vfs.TooLarge},
		{"undo: a huge id", func() error { return fs.Undo(ctx, "p", huge) }, vfs.TooLarge},
		{"revert: no path", func() error { _, err := fs.Revert(ctx, "p", none); return err }, vfs.Invalid},
		{"commit: a huge message", func() error { _, err := fs.Commit(ctx, "p", operator.Commit{Message: huge}); return err }, vfs.TooLarge},
		{"snapshot: a huge pin", func() error { _, err := fs.Snapshot(ctx, "p", "", huge, nil); return err }, vfs.TooLarge},
		{"materialize: a negative bound", func() error { _, err := fs.Materialize(ctx, "p", operator.Bounds{Bytes: -1}, nil); return err }, vfs.Invalid},
		{"materialize: a long path", func() error { _, err := fs.Materialize(ctx, long, operator.Bounds{}, nil); return err }, vfs.Limit},
		{"help: no such method", func() error { _, err := fs.Help(ctx, "chmod"); return err }, vfs.NotFound},
	} {
		is(t, c.name, c.err(), c.want)
	}
	if h.last() != "" {
		t.Errorf("the host was asked %.200s", h.last())
	}
	ok(t, fs.Unmount(ctx, "p"))
}

// The whole tree has a control of its own.
func TestRoot(t *testing.T) {
	h := example()
	fs := virtualFs(t, h)
	ctx := t.Context()
	root, ctl, err := fs.Root(ctx)
	ok(t, err)
	defer root.Close()
	defer ctl.Close()
	other, otherCtl, err := fs.Root(ctx)
	ok(t, err)
	defer other.Close()
	defer otherCtl.Close()
	put := func(d vfs.Dir, path string) error {
		_, err := vfs.Put(ctx, d, path, strings.NewReader("x"), vfs.If{})
		return err
	}
	ok(t, put(root, "a"))
	ok(t, ctl.SetWritable(ctx, false))
	is(t, "a change of what is locked", put(root, "b"), vfs.ReadOnly)
	ok(t, put(other, "b"))
	ok(t, ctl.Revoke(ctx))
	is(t, "a change of what was revoked", put(root, "c"), vfs.Revoked)
	ok(t, put(other, "c"))
	h.err = vfs.Errorf(vfs.Stale, "it is closed")
	_, _, err = fs.Root(ctx)
	is(t, "the root of what is closed", err, vfs.Stale)
}
