package physical_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// TestInstallModes: those who may read a file may execute it, and the rest of its mode
// stays.
func TestInstallModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	both(t, func(t *testing.T, w served) {
		for _, c := range []struct {
			was  os.FileMode
			exec bool
			want os.FileMode
		}{
			{0o644, true, 0o755}, {0o600, true, 0o700}, {0o640, true, 0o750}, {0o604, true, 0o705}, {0o444, true, 0o555},
			{0o200, true, 0o300}, {0o755, true, 0o755}, {0o755, false, 0o644}, {0o711, false, 0o600}, {0o644, false, 0o644},
		} {
			w.write("f", "old")
			w.ok(os.Chmod(w.host("f"), c.was))
			_, err := vfs.Install(w.ctx, w.root, "f", strings.NewReader("new"), c.exec, vfs.If{})
			w.ok(err)
			fi, err := os.Stat(w.host("f"))
			w.ok(err)
			if fi.Mode() != c.want {
				t.Errorf("%v, executable %v, became %v, want %v", c.was, c.exec, fi.Mode(), c.want)
			}
			w.ok(os.Remove(w.host("f")))
		}
	})
}

// TestSymlinkIsNotFollowed: an existing link is not replaced, and nothing is made at its
// target.
func TestSymlinkIsNotFollowed(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.ok(vfs.Symlink(w.ctx, w.root, "l", "../made"))
		w.is("over a link", vfs.Symlink(w.ctx, w.root, "l", "x"), vfs.Exists)
		if text, err := os.Readlink(w.host("l")); err != nil || text != "../made" {
			t.Errorf("%q, %v", text, err)
		}
		_, err := vfs.Install(w.ctx, w.root, "l", strings.NewReader("x"), true, vfs.If{})
		w.is("Install over a link", err, vfs.NotRegular)
		if _, err := os.Lstat(w.host("../made")); err == nil {
			t.Error("something was made outside")
		}
		w.is("a name of the staging", vfs.Symlink(w.ctx, w.root, ".capd-staging-0123456789abcdef0123456789abcdef", "x"), vfs.Invalid, vfs.Denied, vfs.NotFound)
	})
}

// A change by another program between the plan of a replacement and its commit is
// noticed: a new mode is kept, and something that is no longer a file is not replaced.
func TestChangedBeforeTheCommit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	for name, c := range map[string]struct {
		do   func(path string) error
		want vfs.Code
		mode os.FileMode // of what is there at the end
	}{
		"mode": {func(path string) error { return os.Chmod(path, 0o640) }, "", 0o640},
		"link": {func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Symlink("elsewhere", path)
		}, vfs.NotRegular, os.ModeSymlink},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, 0o777); err != nil { // as a link's
				t.Fatal(err)
			}
			root := open(t, dir, physical.Options{}).Root()
			defer root.Close()
			once := true
			ctx := vfs.OnCommit(t.Context(), func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
				if once {
					once = false
					if err := c.do(path); err != nil {
						t.Error(err)
					}
				}
				return change()
			})
			_, err := root.Replace(ctx, "f", strings.NewReader("new"), vfs.If{})
			if vfs.CodeOf(err) != c.want {
				t.Errorf("Replace: %v, want %q", err, c.want)
			}
			fi, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := fi.Mode() & (os.ModeType | 0o777); c.mode&os.ModeType != got&os.ModeType || c.mode.IsRegular() && got != c.mode {
				t.Errorf("there is %v at the end, want %v", got, c.mode)
			}
		})
	}
}
