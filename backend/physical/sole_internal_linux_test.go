package physical

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"capd/vfs"
)

// TestChangesShow: if every change shows at once, a file may always be changed in place.
// If times tick, it may not be changed in the tick in which another program changed it.
func TestChangesShow(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := s.host.(*kernelHost)
	d, err := s.enter(place{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.leave(d)
	if got := probe(h.root); got != always {
		t.Logf("times tick here: %d", got)
	}
	h.changes.exact.Store(ticks)
	file := filepath.Join(dir, "f")
	open := func() error {
		f, _, err := d.openSole("f", os.O_WRONLY)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		a, err := attrOfFile(f)
		if err != nil {
			t.Fatal(err)
		}
		h.changed(a)
		return nil
	}
	write := func() { // until the change and the look at it are in one tick
		if err := os.WriteFile(file, []byte("theirs"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for try := 0; ; try++ {
		write()
		if err := open(); errors.Is(err, errUnsettled) {
			break
		} else if err != nil || try == 1000 {
			t.Fatalf("after %d changes by another program: %v", try, err)
		}
	}
	for {
		a, err := d.lstat("f")
		if err != nil {
			t.Fatal(err)
		}
		if err := a.pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if past(a.ctime, h.changes.now()) {
			break
		}
	}
	for i := range 100 {
		if err := open(); err != nil {
			t.Fatalf("change %d of its own: %v", i, err)
		}
	}
	if err := os.Link(file, file+"2"); err != nil {
		t.Fatal(err)
	}
	if err := open(); vfs.CodeOf(err) != vfs.Denied {
		t.Errorf("with two names: %v", err)
	}
}

// TestBarrierChangesNothing: the barrier is a rename that never renames.
func TestBarrierChangesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("f"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d, err := s.host.enter(place{}, false)
	if err != nil {
		t.Fatal(err)
	}
	before, err := d.lstat("f")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.(*kernelDir).barrier("f"); err != nil {
		t.Error(err)
	}
	if after, err := d.lstat("f"); err != nil || after != before {
		t.Errorf("%+v, %v; it was %+v", after, err, before)
	}
	if err := d.(*kernelDir).barrier("g"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of a name that is not there: %v", err)
	}
}
