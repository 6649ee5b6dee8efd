package physical

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"capd/vfs"
)

// After the kernel has dropped events, exactly the directories are watched, and counted, that are there. One that was moved away just before
// is not.
func TestWatchAfterOverflow(t *testing.T) {
	dir, away := t.TempDir(), t.TempDir()
	for _, d := range []string{"flood", "moves/deep", "stays"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Confinement() != "kernel" {
		t.Skip("this kernel has no openat2")
	}
	dirs, lost := 0, 0
	w, err := s.Root().(*Dir).Watch(t.Context(), vfs.Watch{
		Count: func(by int) error { dirs += by; return nil },
		Tell: func(all []vfs.Notice) {
			for _, n := range all {
				if n.Kind == vfs.Lost {
					lost++
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := notifications
	<-n.lock // nobody reads the queue
	if err := os.Rename(filepath.Join(dir, "moves"), filepath.Join(away, "moves")); err != nil {
		t.Fatal(err)
	}
	for i := range 20_000 {
		if err := os.WriteFile(filepath.Join(dir, "flood", fmt.Sprint(i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.give()
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := 3; lost == 0 || dirs != want {
		t.Errorf("after an overflow %d directories are counted, want %d; lost was told %d times", dirs, want, lost)
	}
	<-n.lock
	if watched := len(n.dirs); watched != 3 {
		t.Errorf("%d directories are watched, want 3", watched)
	}
	n.give()
	w.Stop()
	if dirs != 0 {
		t.Errorf("in the end %d directories are counted", dirs)
	}
}
