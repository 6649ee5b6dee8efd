package client_test

import (
	"errors"
	"testing"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// View shows what ReadAt reads.
func TestView(t *testing.T) {
	content := make([]byte, 1<<20+10)
	for i := range content {
		content[i] = byte(i * 7 >> 3)
	}
	f := guest(t, scene.InMemory(t, vfstest.Tree{"f": {Data: string(content)}})).OpenFile("f")
	ctx := t.Context()
	for _, c := range []struct {
		off int64
		n   int
		eof bool
	}{{0, 0, false}, {0, 10, false}, {3, 1 << 20, false}, {1 << 20, 10, false}, {1 << 20, 11, true}, {1 << 30, 5, true}} {
		want := content[min(c.off, int64(len(content))):]
		want = want[:min(c.n, len(want))]
		ok(t, f.View(ctx, c.off, c.n, func(b []byte, eof bool) error {
			if string(b) != string(want) {
				t.Errorf("%d bytes from %d are others than were written", c.n, c.off)
			}
			if short := len(b) < c.n; short != c.eof || short && !eof {
				t.Errorf("%d of %d bytes from %d, and the end is %v", len(b), c.n, c.off, eof)
			}
			return nil
		}))
	}
	mine := errors.New("mine")
	if err := f.View(ctx, 0, 1, func([]byte, bool) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("use's error is View's, and it is %v", err)
	}
	never := func([]byte, bool) error { t.Error("there is nothing to look at"); return nil }
	is(t, "too much", f.View(ctx, 0, 1<<20+1, never), vfs.TooLarge)
	is(t, "a negative offset", f.View(ctx, -1, 1, never), vfs.Invalid)
	is(t, "a negative length", f.View(ctx, 0, -1, never), vfs.Invalid)
	ok(t, f.Close())
	is(t, "closed", f.View(ctx, 0, 1, never), vfs.Stale)
}
