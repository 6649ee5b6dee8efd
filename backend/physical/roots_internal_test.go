package physical

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
)

func openFor(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := OpenAmbient(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mkdir(t *testing.T, path ...string) string {
	t.Helper()
	dir := filepath.Join(path...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Two stores use the same names for what both show, also after one of them has moved it.
func TestNamesOfStores(t *testing.T) {
	dir := t.TempDir()
	inner := openFor(t, mkdir(t, dir, "a", "b", "c"))
	outer, twice := openFor(t, dir), openFor(t, filepath.Join(dir, "."))
	beside := openFor(t, mkdir(t, dir+"-beside"))
	same := func(in string) {
		t.Helper()
		if a, b, c := outer.named(in+"/f"), twice.named(in+"/f"), inner.named("f"); a != b || b != c {
			t.Errorf("one file is called %q, %q and %q", a, b, c)
		}
		if beside.named("f") == outer.named("f") {
			t.Error("two files are called alike")
		}
	}
	same("a/b/c")
	root := outer.Root()
	if err := root.Rename(t.Context(), "a", root, "x", vfs.If{}, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	same("x/b/c")
	if again := openFor(t, filepath.Join(dir, "x", "b")); again.named("c/f") != inner.named("f") {
		t.Errorf("%q is called %q", inner.named("f"), again.named("c/f"))
	}
}

// All of the host's files may be served too.
func TestNamesInRoot(t *testing.T) {
	for _, dirs := range [][2]string{{"/", t.TempDir()}, {t.TempDir(), "/"}} {
		var all []*Store
		for _, dir := range dirs {
			s, err := OpenAmbient(dir, Options{})
			if err != nil {
				t.Skip(err)
			}
			defer s.Close()
			all = append(all, s)
		}
		if dirs[0] != "/" {
			slices.Reverse(dirs[:])
			slices.Reverse(all)
		}
		inside, err := filepath.EvalSymlinks(dirs[1])
		if err != nil {
			t.Fatal(err)
		}
		if a, b := all[0].named(strings.TrimPrefix(filepath.ToSlash(inside), "/")+"/f"), all[1].named("f"); a != b {
			t.Errorf("one file is called %q and %q", a, b)
		}
	}
}

// While a Store has locked a name, another Store that shows it waits. So does a caller
// that would move its directory.
func TestLocksOfStores(t *testing.T) {
	dir := t.TempDir()
	inner, outer := openFor(t, mkdir(t, dir, "a", "b")), openFor(t, dir)
	for _, path := range []string{"a/b/f", "a/b", "a"} {
		above := outer.where.Load().outer + 1
		unlock := inner.lockNames("f")
		got := make(chan struct{})
		go func() {
			outer.lockNames(path)()
			close(got)
		}()
		for process.locks.uses() < len(claimsOf([]string{inner.named("f")}, above))+len(claimsOf([]string{outer.named(path)}, above)) { // until it has asked
		}
		select {
		case <-got:
			t.Errorf("%s is to be had", path)
		default:
		}
		unlock()
		<-got
	}
}

// A Store that is closed is forgotten.
func TestStoresAreForgotten(t *testing.T) {
	before := len(process.roots)
	s := openFor(t, t.TempDir())
	if len(process.roots) != before+1 {
		t.Errorf("%d Stores are known, want %d", len(process.roots), before+1)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(process.roots) != before {
		t.Errorf("%d Stores are known, want %d", len(process.roots), before)
	}
}
