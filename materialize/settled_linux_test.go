package materialize_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/memory"
	"capd/materialize"
	"capd/vfs"
)

// slowly is a context in which reading takes long: longer than it takes for a file's
// times to be trusted.
type slowly struct {
	context.Context
	since time.Time
	calls int
	begun time.Duration // when the file was read first, after since
}

// Err is called for the file's entry, and then for each read.
func (s *slowly) Err() error {
	if s.calls++; s.calls > 1 && s.begun == 0 {
		s.begun = time.Since(s.since)
	}
	for s.calls > 1 && time.Since(s.since) < 30*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	return s.Context.Err()
}

// A file that was changed just before it is read is read again by the next Changes, even
// if its times could be trusted by the time that it was read. A mapping lets the test
// change the file a second time with the same times.
func TestChangedJustBeforeASlowRead(t *testing.T) {
	for !changedJustBefore(t) { // the machine was too busy
	}
}

func changedJustBefore(t *testing.T) (tested bool) {
	store := memory.New(memory.Limits{})
	_, err := store.Root().Replace(t.Context(), "f", strings.NewReader("old old"), vfs.If{})
	ok(t, err)
	tr, err := newBase(t, t.TempDir()).New(t.Context(), store.Root(), materialize.Options{})
	ok(t, err)
	defer tr.Close()
	f, err := os.OpenFile(filepath.Join(tr.Path(), "f"), os.O_RDWR, 0)
	ok(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, len("old old"), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	ok(t, err)
	defer unix.Munmap(m)
	ctx := &slowly{Context: t.Context(), since: time.Now()}
	m[0] = 'o' // as it was
	c, err := tr.Changes(ctx)
	ok(t, err)
	if len(c.List) != 0 {
		t.Fatalf("%+v, want no change", c.List)
	}
	copy(m, "new")
	c, err = tr.Changes(t.Context())
	ok(t, err)
	if ctx.begun >= 20*time.Millisecond {
		return false
	}
	if len(c.List) != 1 {
		t.Errorf("%+v, want the change of f", c.List)
	}
	return true
}
