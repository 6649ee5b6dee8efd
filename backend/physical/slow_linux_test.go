package physical_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/tests/slowfs"
	"capd/vfs"
)

// atOnce fails if f does not return although the file system hangs.
func atOnce(t *testing.T, fs *slowfs.FS, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		fs.Release()
		<-done
		t.Errorf("%s waits for a file system that hangs", what)
	}
}

func node[N vfs.Node](t *testing.T, d vfs.Dir, path string) N {
	t.Helper()
	n, err := vfs.Walk(t.Context(), d, path)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return n.(N)
}

// TestTriesNothingElsewhere: on a file system that may ask somebody else, nothing is
// tried.
func TestTriesNothingElsewhere(t *testing.T) {
	fs := slowfs.Mount(t)
	fs.File(t, "d/f", 100)
	d := open(t, fs.Path, physical.Options{}).Root()
	for path, n := range map[string]vfs.Node{"": d, "d": node[vfs.Dir](t, d, "d"), "d/f": node[vfs.File](t, d, "d/f")} {
		if vfs.CanTry(n) {
			t.Errorf("%q is tried", path)
		}
	}
	if here := open(t, t.TempDir(), physical.Options{}); here.Confinement() == "kernel" && !vfs.CanTry(here.Root()) {
		t.Error("where tests keep their files nothing is tried")
	}
}

// TestMountThatHangs: a mount below a served directory is not asked for anything, so it
// need not answer.
func TestMountThatHangs(t *testing.T) {
	dir := t.TempDir()
	fs := slowfs.MountAt(t, filepath.Join(dir, "mount"), slowfs.KeepNames)
	fs.File(t, "f", 100)
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("here"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, physical.Options{})
	if s.Confinement() != "kernel" {
		t.Skip("this kernel has no openat2")
	}
	d := s.Root()
	fs.Hang()
	asked := fs.Asked()
	for what, f := range map[string]func() error{
		"lookup":  func() error { _, err := d.Lookup(t.Context(), "mount"); return err },
		"walk":    func() error { _, err := vfs.Walk(t.Context(), d, "mount/f"); return err },
		"replace": func() error { _, err := d.Replace(t.Context(), "mount", nil, vfs.If{}); return err },
		"remove":  func() error { return d.Remove(t.Context(), "mount", vfs.If{}) },
		"rename":  func() error { return d.Rename(t.Context(), "mount", d, "elsewhere", vfs.If{}, vfs.If{}) },
	} {
		atOnce(t, fs, what, func() {
			if err := f(); vfs.CodeOf(err) != vfs.CrossDevice {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	atOnce(t, fs, "trying", func() {
		if _, err := d.Lookup(vfs.Trying(), "mount"); err != vfs.ErrWouldBlock && vfs.CodeOf(err) != vfs.CrossDevice {
			t.Errorf("trying: %v", err)
		}
	})
	atOnce(t, fs, "list", func() {
		n := 0
		for _, err := range d.List(t.Context()) {
			if n++; err != nil {
				t.Error(err)
			}
		}
		if n != 2 {
			t.Errorf("%d entries", n)
		}
	})
	if n := fs.Asked() - asked; n > 0 {
		t.Errorf("it was asked %d times", n)
	}
}

// TestOverlayOfWhatHangs: an overlay of the kernel over a file system that hangs is
// tried, and nobody who tries waits.
func TestOverlayOfWhatHangs(t *testing.T) {
	fs := slowfs.Mount(t, slowfs.KeepNames)
	for i := range 20 {
		fs.File(t, fmt.Sprintf("d/f%d", i), 100)
	}
	base := t.TempDir()
	for _, name := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(base, "merged")
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", fs.Path, filepath.Join(base, "upper"), filepath.Join(base, "work"))
	if err := unix.Mount("overlay", merged, "overlay", 0, layers); err != nil {
		t.Skipf("this machine lets this user lay no overlay: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(merged, unix.MNT_DETACH) })
	d := open(t, merged, physical.Options{}).Root()
	if !vfs.CanTry(d) {
		t.Fatal("an overlay is not tried")
	}
	sub, f := node[vfs.Dir](t, d, "d"), node[vfs.File](t, d, "d/f0")
	p := make([]byte, 10)
	for range 3 { // so that it is kept open, if it is
		if _, err := f.ReadAt(t.Context(), p, 0); err != nil {
			t.Fatal(err)
		}
	}
	fs.Hang()
	for i := range 20 {
		for what, try := range map[string]func() error{
			"the directory's Stat": func() error { _, err := sub.Stat(vfs.Trying()); return err },
			"the file's Stat":      func() error { _, err := f.Stat(vfs.Trying()); return err },
			"Lookup":               func() error { _, err := sub.Lookup(vfs.Trying(), fmt.Sprintf("f%d", i)); return err },
			"Walk":                 func() error { _, err := vfs.Walk(vfs.Trying(), d, fmt.Sprintf("d/f%d", i)); return err },
			"ReadAt":               func() error { _, err := f.ReadAt(vfs.Trying(), p, 0); return err },
		} {
			atOnce(t, fs, what, func() {
				if err := try(); err != nil && err != vfs.ErrWouldBlock {
					t.Errorf("%s: %v", what, err)
				}
			})
			if t.Failed() {
				return
			}
		}
	}
}
