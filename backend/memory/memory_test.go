package memory_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var is = check.Is

const kib = 1 << 10

// counting counts how much of a reader was read.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func put(t *testing.T, d vfs.Dir, name string, n int64) error {
	t.Helper()
	_, err := d.Replace(t.Context(), name, io.LimitReader(zeros{}, n), vfs.If{})
	return err
}

func wantUsage(t *testing.T, s *memory.Store, bytes, nodes int64) {
	t.Helper()
	if b, n := s.Usage(); b != bytes || n != nodes {
		t.Errorf("Usage = %d bytes, %d nodes, want %d, %d", b, n, bytes, nodes)
	}
}

func TestByteLimit(t *testing.T) {
	const limit = 1000 * kib
	s := memory.New(memory.Limits{Bytes: limit})
	d := s.Root()
	is(t, "to the limit", put(t, d, "f", limit), "")
	wantUsage(t, s, limit, 1)
	is(t, "as much again in its place", put(t, d, "f", limit), "")
	is(t, "a byte more", put(t, d, "f", limit+1), vfs.Quota)
	is(t, "a byte elsewhere", put(t, d, "g", 1), vfs.Quota)
	is(t, "nothing elsewhere", put(t, d, "g", 0), "")
	n, err := d.Lookup(t.Context(), "f")
	if err != nil {
		t.Fatal(err)
	}
	f := n.(vfs.File)
	_, err = f.WriteAt(t.Context(), []byte("xx"), limit-1, vfs.If{})
	is(t, "WriteAt over the limit", err, vfs.Quota)
	_, err = f.WriteAt(t.Context(), []byte("xx"), limit-2, vfs.If{})
	is(t, "WriteAt within", err, "")
	_, err = f.WriteAt(t.Context(), []byte("x"), 1<<62, vfs.If{})
	is(t, "WriteAt far away", err, vfs.Quota)
	is(t, "Truncate over the limit", f.Truncate(t.Context(), 1<<62, vfs.If{}), vfs.Quota)
	_, err = vfs.Append(t.Context(), f, []byte("x"), vfs.If{})
	is(t, "Append over the limit", err, vfs.Quota)
	wantUsage(t, s, limit, 2)
	is(t, "Truncate", f.Truncate(t.Context(), 10, vfs.If{}), "")
	wantUsage(t, s, 10, 2)
	is(t, "Remove", d.Remove(t.Context(), "f", vfs.If{}), "")
	wantUsage(t, s, 0, 1)
}

// A large put reads hardly more than the store may hold.
func TestPutBeyondLimit(t *testing.T) {
	const limit = 1000 * kib
	s := memory.New(memory.Limits{Bytes: limit})
	r := &counting{r: zeros{}}
	_, err := s.Root().Replace(t.Context(), "f", r, vfs.If{})
	is(t, "an endless put", err, vfs.Quota)
	if r.n > limit+64*kib {
		t.Errorf("an endless put read %d bytes, with a limit of %d", r.n, limit)
	}
	wantUsage(t, s, 0, 0)
	is(t, "a put after it", put(t, s.Root(), "f", limit), "")
}

func TestNodeLimit(t *testing.T) {
	s := memory.New(memory.Limits{Nodes: 3})
	d := s.Root()
	ctx := t.Context()
	sub, err := d.Mkdir(ctx, "d")
	is(t, "Mkdir", err, "")
	_, err = sub.Create(ctx, "f")
	is(t, "Create", err, "")
	is(t, "Symlink", s.Symlink(ctx, "d/l", "f"), "")
	_, err = d.Mkdir(ctx, "more")
	is(t, "Mkdir", err, vfs.Quota)
	_, err = d.Create(ctx, "more")
	is(t, "Create", err, vfs.Quota)
	r := &counting{r: zeros{}}
	_, err = d.Replace(ctx, "more", r, vfs.If{})
	is(t, "Replace", err, vfs.Quota)
	if r.n > 0 {
		t.Errorf("Replace read %d bytes although there was no room for the file", r.n)
	}
	is(t, "Symlink", s.Symlink(ctx, "more", "f"), vfs.Quota)
	is(t, "Rename", sub.Rename(ctx, "f", d, "g", vfs.If{}, vfs.If{}), "")
	wantUsage(t, s, 0, 3)
	is(t, "Remove", sub.Remove(ctx, "l", vfs.If{}), "")
	_, err = d.Create(ctx, "more")
	is(t, "Create after Remove", err, "")
}

// What readers hold open is bounded too, and released when they close.
func TestHeldOpen(t *testing.T) {
	const limit = 1000 * kib
	s := memory.New(memory.Limits{Bytes: limit})
	d := s.Root()
	var held []vfs.Content
	var err error
	for i := range 10 {
		if err = put(t, d, "f", 400*kib); err != nil {
			break
		}
		n, lookup := d.Lookup(t.Context(), "f")
		if lookup != nil {
			t.Fatal(lookup)
		}
		c, open := vfs.Open(t.Context(), n.(vfs.File))
		if open != nil {
			is(t, "one content too many", open, vfs.Busy)
			err = put(t, d, "f", 400*kib)
			break
		}
		held = append(held, c)
		if i > 5 {
			t.Fatal("old contents are held without bounds")
		}
	}
	is(t, "a put beside what is held open", err, vfs.Busy)
	is(t, "a removal beside what is held open", d.Remove(t.Context(), "f", vfs.If{}), "")
	for _, c := range held {
		c.Close()
		c.Close()
	}
	is(t, "a put when all is closed", put(t, d, "f", limit), "")
	is(t, "and another in its place", put(t, d, "f", limit), "")
}

// What was staged and dropped is free again.
func TestStagingReleased(t *testing.T) {
	const limit = 1000 * kib
	s := memory.New(memory.Limits{Bytes: limit})
	d := s.Root()
	broken := errors.New("broken")
	for range 5 {
		pr, pw := io.Pipe()
		go func() {
			io.CopyN(pw, zeros{}, 800*kib)
			pw.CloseWithError(broken)
		}()
		if _, err := d.Replace(t.Context(), "f", pr, vfs.If{}); !errors.Is(err, broken) {
			t.Errorf("Replace answers %v, want the reader's error", err)
		}
		refuse := vfs.OnCommit(t.Context(), func(vfs.Effect, func() (vfs.Effect, error)) (vfs.Effect, error) {
			return vfs.Effect{}, vfs.Revoked
		})
		_, err := d.Replace(refuse, "f", io.LimitReader(zeros{}, 800*kib), vfs.If{})
		is(t, "Replace refused", err, vfs.Revoked)
		func() {
			defer func() { recover() }()
			d.Replace(t.Context(), "f", io.MultiReader(io.LimitReader(zeros{}, 800*kib), panicking{}), vfs.If{})
		}()
	}
	wantUsage(t, s, 0, 0)
	is(t, "a put after them", put(t, d, "f", limit), "")
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("a reader's own fault") }

type lying struct{}

func (lying) Read(p []byte) (int, error) { return len(p) + 1, nil }

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestBadReaders(t *testing.T) {
	d := memory.New(memory.Limits{}).Root()
	_, err := d.Replace(t.Context(), "f", lying{}, vfs.If{})
	is(t, "a reader that lies", err, vfs.Invalid)
	if _, err = d.Replace(t.Context(), "f", idle{}, vfs.If{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that does nothing: %v", err)
	}
}

func TestHostMethods(t *testing.T) {
	s := memory.New(memory.Limits{})
	ctx := t.Context()
	d := s.Root()
	is(t, "put", put(t, d, "f", 1), "")
	for path, code := range map[string]vfs.Code{
		"f": vfs.Exists, "f/x": vfs.NotDir, "missing/x": vfs.NotFound, "/x": vfs.Invalid, "": vfs.Invalid, "a\nb": vfs.Invalid,
	} {
		is(t, "Symlink "+path, s.Symlink(ctx, path, "t"), code)
	}
	is(t, "Symlink", s.Symlink(ctx, "l", strings.Repeat("t", 5000)), vfs.Limit)
	is(t, "Symlink", s.Symlink(ctx, "l", "anything at all"), "")
}

// An open content does not change when the file is written in place.
func TestOpenContentUnderWrites(t *testing.T) {
	d := memory.New(memory.Limits{}).Root()
	want := bytes.Repeat([]byte("0123456789"), 30_000)
	if _, err := d.Replace(t.Context(), "f", bytes.NewReader(want), vfs.If{}); err != nil {
		t.Fatal(err)
	}
	n, _ := d.Lookup(t.Context(), "f")
	f := n.(vfs.File)
	c, err := vfs.Open(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f.WriteAt(t.Context(), []byte("torn"), 100_000, vfs.If{})
	f.Truncate(t.Context(), 5, vfs.If{})
	vfs.Append(t.Context(), f, []byte("more"), vfs.If{})
	got, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("an open content changed: %d bytes, %v", len(got), err)
	}
	if info, _ := f.Stat(t.Context()); info.Size != 9 {
		t.Errorf("the file has %d bytes, want 9", info.Size)
	}
}

// Constant requests for a version do not starve a conditional write.
func TestConditionalWriteUnderWrites(t *testing.T) {
	d := memory.New(memory.Limits{}).Root()
	if err := put(t, d, "f", 200*kib); err != nil {
		t.Fatal(err)
	}
	n, _ := d.Lookup(t.Context(), "f")
	f := n.(vfs.File)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			f.WriteAt(ctx, []byte("x"), int64(i%1000), vfs.If{})
		}
	}()
	for range 20 {
		_, err := f.WriteAt(t.Context(), []byte("y"), 0, vfs.If{Is: vfs.Version{1}})
		is(t, "WriteAt", err, vfs.Conflict)
	}
	cancel()
	<-done
}

func TestPutYields(t *testing.T) { vfstest.Yields(t, memory.New(memory.Limits{}).Root()) }
