package console_test

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"sync"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/cap/virtualfs"
	schema "capd/capnp"
	"capd/client/console"
	"capd/host"
	"capd/operator"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

var ok, is = check.OK, check.Is

// fake is a virtualfs.Host that gives set answers and notes the calls. Long work calls
// work, if it is set.
type fake struct {
	mu    sync.Mutex
	calls []string // method and arguments

	err      error
	mounts   []operator.Mount
	changes  []diff.Change
	skipped  []diff.Skipped
	review   operator.Review
	applied  operator.Applied
	count    int
	commit   string
	snapshot operator.Snapshot
	tree     vfs.Dir
	work     func(ctx context.Context, p operator.Progress) error
	looks    int           // at a materialized tree
	closed   chan struct{} // gets one for each tree that was closed
}

var _ virtualfs.Host = (*fake)(nil)

func (f *fake) note(method string, args ...any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("%s %#v", method, args))
	return f.err
}

// last returns the last call.
func (f *fake) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.calls) == 0 {
		return ""
	}
	return f.calls[len(f.calls)-1]
}

func (f *fake) do(ctx context.Context, p operator.Progress, err error) error {
	if err == nil && f.work != nil {
		return f.work(ctx, p)
	}
	return err
}

func (f *fake) Mount(_ context.Context, path, url string, a operator.Attenuation) error {
	return f.note("mount", path, url, a)
}
func (f *fake) Unmount(_ context.Context, path string) error { return f.note("unmount", path) }
func (f *fake) Mounts() []operator.Mount                     { f.note("mounts"); return f.mounts }

func (f *fake) Root(context.Context) (vfs.Dir, *membrane.Control, error) {
	if err := f.note("root"); err != nil {
		return nil, nil, err
	}
	return membrane.RevocableDir(f.tree)
}

func (f *fake) Diff(ctx context.Context, path string, o operator.DiffOptions, after string, yield func(diff.Change) bool) (operator.Review, error) {
	if err := f.do(ctx, nil, f.note("diff", path, o, after)); err != nil {
		return operator.Review{}, err
	}
	for _, c := range f.changes {
		if c.Path > after && !yield(c) {
			return f.review, nil
		}
	}
	return f.review, nil
}

func (f *fake) Apply(ctx context.Context, path string, o operator.ApplyOptions, p operator.Progress) (operator.Applied, error) {
	return f.applied, f.do(ctx, p, f.note("apply", path, o, p != nil))
}
func (f *fake) Undo(_ context.Context, path, id string) error { return f.note("undo", path, id) }
func (f *fake) Revert(_ context.Context, path string, paths []string) (int, error) {
	return f.count, f.note("revert", path, paths)
}
func (f *fake) Commit(_ context.Context, path string, c operator.Commit) (string, error) {
	return f.commit, f.note("commit", path, c)
}
func (f *fake) Snapshot(ctx context.Context, path, store, pin string, p operator.Progress) (operator.Snapshot, error) {
	return f.snapshot, f.do(ctx, p, f.note("snapshot", path, store, pin, p != nil))
}
func (f *fake) Materialize(ctx context.Context, path string, b operator.Bounds, p operator.Progress) (operator.Tree, error) {
	if err := f.do(ctx, p, f.note("materialize", path, b, p != nil)); err != nil {
		return nil, err
	}
	return fakeTree{f}, nil
}

// fakeTree is a tree that a fake has materialized.
type fakeTree struct{ *fake }

func (fakeTree) Path() string { return "/private/tree" }
func (t fakeTree) Changes(context.Context) ([]diff.Change, []diff.Skipped, error) {
	err := t.note("changes")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looks++
	return t.changes, t.skipped, err
}
func (t fakeTree) Sync(ctx context.Context, p operator.Progress) (int, []diff.Skipped, error) {
	return t.count, t.skipped, t.do(ctx, p, t.note("sync", p != nil))
}
func (t fakeTree) Close() error { t.closed <- struct{}{}; return nil }

// asked checks the last call: its method and its arguments.
func (f *fake) asked(t *testing.T, method string, args ...any) {
	t.Helper()
	if want := fmt.Sprintf("%s %#v", method, args); f.last() != want {
		t.Errorf("the host was asked\n%s, want\n%s", f.last(), want)
	}
}

// serve starts a host with fs for its operator. It returns a function that dials the
// control socket.
func serve(t *testing.T, fs virtualfs.Host) (dial func() net.Conn) {
	t.Helper()
	h := scene.Serve(t, memory.New(memory.Limits{}).Root(), scene.Options{Options: host.Options{VirtualFs: fs}})
	socket := h.Console(t)
	return func() net.Conn { return scene.DialRaw(t, socket) }
}

// virtualFs returns the VirtualFs of a host's console.
func virtualFs(t *testing.T, h virtualfs.Host) *console.VirtualFs {
	t.Helper()
	c := console.New(serve(t, h)())
	t.Cleanup(func() { c.Close() })
	fs, err := c.VirtualFs(t.Context())
	ok(t, err)
	t.Cleanup(func() { fs.Close() })
	return fs
}

// raw returns the same as a bare capability.
func raw(t *testing.T, h virtualfs.Host) *vat.Cap {
	t.Helper()
	conn := vat.NewConn(serve(t, h)(), vat.Options{})
	t.Cleanup(func() { conn.Close() })
	boot := conn.Bootstrap(t.Context())
	defer boot.Release()
	a := vat.Send(t.Context(), boot, schema.Console_virtualFs, nil)
	defer a.Release()
	return a.Cap(schema.Console_virtualFs_Results_fs)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n%#v, want\n%#v", what, got, want)
	}
}

// soon waits for c.
func soon[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		t.Fatalf("it never came to this: %s", what)
	}
	return v
}
