package physical_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

func init() { other["replace"] = replaceWithoutEnd }

// replaceWithoutEnd replaces a file with content that never ends.
func replaceWithoutEnd(args []string) {
	s, err := physical.OpenAmbient(args[0], physical.Options{Portable: args[1] == "best-effort"})
	if err != nil {
		fmt.Println(err)
		return
	}
	if d, err := s.Root().Mkdir(context.Background(), "here"); err != nil {
		fmt.Println(err)
	} else {
		d.Close()
	}
	sent := 0
	s.Root().Replace(context.Background(), "f", readerFunc(func(p []byte) (int, error) {
		if sent++; sent == 50 {
			fmt.Println("half-way")
		}
		if sent > 60 {
			select {}
		}
		return len(p), nil
	}), vfs.If{})
}

// TestKilled kills a program in the middle of a Replace.
func TestKilled(t *testing.T) {
	both(t, func(t *testing.T, w served) {
		w.write("f", "old")
		cmd := program("replace", w.dir, w.store.Confinement())
		out, err := cmd.StdoutPipe()
		w.ok(err)
		w.ok(cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || line != "half-way\n" {
			t.Fatalf("the other program says %q, %v", line, err)
		}
		w.ok(open(t, w.dir, physical.Options{}).Close())
		if len(stagings(t, w.dir)) != 1 {
			t.Error("the staging directory of a live owner was swept")
		}
		if got := strings.Join(names(t, w.root), " "); got != "f here" {
			t.Errorf("List = %s", got)
		}
		w.ok(cmd.Process.Kill())
		cmd.Wait()
		io.Copy(io.Discard, out)
		w.has(w.host("f"), "old")
		if len(stagings(t, w.dir)) != 1 {
			t.Fatal("there is nothing to sweep")
		}
		s, err := physical.OpenAmbient(w.dir, physical.Options{})
		w.ok(err)
		s.ReadOnlyRoot()
		w.ok(s.Close())
		if len(stagings(t, w.dir)) != 1 {
			t.Error("a read-only root swept")
		}
		open(t, w.dir, physical.Options{Portable: !w.kernel()})
		hasNothingElse(t, w.dir, "f", "here")
	})
}

func stagings(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, ".capd-staging-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestSweep removes only what a dead Store left.
func TestSweep(t *testing.T) {
	digits := strings.Repeat("0123456789abcdef", 2)
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must := func(errs ...error) {
				t.Helper()
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
			}
			stage := func(name string, perm os.FileMode) string {
				at := filepath.Join(dir, ".capd-staging-"+name)
				must(os.Mkdir(at, 0o700), os.WriteFile(at+"/t1", nil, 0o600), os.Chmod(at, perm))
				return filepath.Base(at)
			}
			stay := []string{
				stage("short", 0o700),
				stage(digits[:31]+"F", 0o700),
				stage(digits[:31]+"1", 0o755),
				stage(digits[:31]+"2", 0o700), // holds a directory
			}
			must(os.Mkdir(filepath.Join(dir, stay[3], "data"), 0o755))
			must(os.WriteFile(filepath.Join(dir, stay[3], "data", "f"), nil, 0o644))
			must(os.WriteFile(filepath.Join(dir, ".capd-staging-"+digits[:31]+"3"), nil, 0o600))
			outside := t.TempDir()
			must(os.Chmod(outside, 0o700), os.WriteFile(outside+"/t1", nil, 0o600))
			must(os.Symlink(outside, filepath.Join(dir, ".capd-staging-"+digits[:31]+"4")))
			gone := stage(digits, 0o700)
			must(os.MkdirAll(filepath.Join(dir, gone, "dir2/sub"), 0o755), os.WriteFile(filepath.Join(dir, gone, "dir2/sub/f"), nil, 0o644))
			must(os.Symlink(outside, filepath.Join(dir, gone, "dir2/out"))) // a staged directory
			must(os.Symlink(outside+"/t1", filepath.Join(dir, stage(digits[:31]+"5", 0o700), "t2")))

			s := open(t, dir, o)
			if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
				t.Error("what was left was not swept")
			}
			for _, name := range append(stay, stay[3]+"/data/f") {
				if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
					t.Errorf("swept: %v", err)
				}
			}
			if _, err := os.Stat(outside + "/t1"); err != nil {
				t.Errorf("a link was followed: %v", err)
			}

			// What is left below does not block anything.
			must(os.Mkdir(dir+"/d", 0o755), os.Mkdir(dir+"/d/.capd-staging-"+digits, 0o700))
			if err := s.Root().Remove(t.Context(), "d", vfs.If{}); err != nil {
				t.Errorf("Remove: %v", err)
			}
		})
	}
}
