package physical

import (
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A Store with NoSync writes neither contents nor names to disk before it answers.
func TestNoSync(t *testing.T) {
	for _, noSync := range []bool{false, true} {
		s, err := OpenAmbient(t.TempDir(), Options{NoSync: noSync})
		check.OK(t, err)
		defer s.Close()
		d, err := s.enter(place{})
		check.OK(t, err)
		c := changing{s: s}
		check.OK(t, c.of(d, place{}))
		s.leave(d)
		if unsynced := len(c.all) == 0; unsynced != noSync {
			t.Errorf("NoSync %v: %d directories are to be synced", noSync, len(c.all))
		}
		c.drop()
		none := &staged{st: &stage{s: s}} // it has no file, so a sync fails
		if err := none.Sync(t.Context()); (err == nil) != noSync {
			t.Errorf("NoSync %v: a content is synced, or not: %v", noSync, err)
		}
		root := s.Root()
		check.OK(t, check.Put(t.Context(), root, "f", "text"))
		f := check.FileAt(t, root, "f")
		check.OK(t, f.Sync(t.Context()))
		if got := check.Read(t, root, "f"); got != "text" {
			t.Errorf("%q", got)
		}
		_, err = root.Lookup(t.Context(), "none")
		check.Is(t, "what is not there", err, vfs.NotFound)
	}
}
