package physical_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// notices collects what is told.
type notices struct {
	mu    sync.Mutex
	all   []vfs.Notice
	dirs  int
	most  int // 0: any number of directories
	count int // calls of Count that were refused
}

func (n *notices) watch() vfs.Watch {
	return vfs.Watch{
		Tell: func(all []vfs.Notice) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.all = append(n.all, all...)
		},
		Count: func(by int) error {
			if n.most > 0 && n.dirs+by > n.most {
				n.count++
				return vfs.Limit
			}
			n.dirs += by
			return nil
		},
	}
}

// take returns what was told since, as words.
func (n *notices) take(t *testing.T, w vfs.Watching) (all []string) {
	t.Helper()
	check.OK(t, w.Sync(t.Context()))
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.all {
		switch {
		case e.Kind == vfs.Lost:
			all = append(all, "lost")
		case e.Kind == vfs.Partly:
			all = append(all, "partly")
		case e.Event == vfs.Moved:
			all = append(all, "moved "+e.From+" "+e.Path)
		default:
			all = append(all, e.Event.String()+" "+e.Path)
		}
	}
	n.all = nil
	return all
}

func watched(t *testing.T, n *notices) (dir string, w vfs.Watching) {
	t.Helper()
	dir = t.TempDir()
	for _, d := range []string{"a/b/c", "d", "e/f"} {
		check.OK(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	check.OK(t, os.WriteFile(filepath.Join(dir, "a/file"), []byte("x"), 0o644))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	if s.Confinement() != "kernel" {
		t.Skip("this kernel has no openat2")
	}
	root := s.Root()
	w, err = vfs.WatchIn(t.Context(), root, n.watch())
	check.OK(t, err)
	root.Close() // it goes on
	t.Cleanup(w.Stop)
	return dir, w
}

// What other programs do is told when Sync returns, at the paths that then hold.
func TestWatch(t *testing.T) {
	n := &notices{}
	dir, w := watched(t, n)
	if n.dirs != 7 {
		t.Errorf("%d directories are watched", n.dirs)
	}
	at := func(path string) string { return filepath.Join(dir, path) }
	write := func(path string) { check.OK(t, os.WriteFile(at(path), []byte("new"), 0o644)) }
	rename := func(from, to string) { check.OK(t, os.Rename(at(from), at(to))) }
	for _, c := range []struct {
		what string
		do   func()
		want []string
	}{
		{"nothing", func() {}, nil},
		{"a new file", func() { write("new") }, []string{"created new"}},
		{"a file that is written", func() { write("a/file") }, []string{"changed a/file"}},
		{"a bit", func() { check.OK(t, os.Chmod(at("a/file"), 0o755)) }, []string{"changed a/file"}},
		{"a removal", func() { check.OK(t, os.Remove(at("new"))) }, []string{"removed new"}},
		{"a file that was there for a moment", func() { write("tmp"); check.OK(t, os.Remove(at("tmp"))) }, []string{"removed tmp"}},
		{"a file that is saved as editors do", func() { write("a/tmp"); rename("a/tmp", "a/file") }, []string{"created a/file", "removed a/tmp"}},
		{"a directory that is moved, and then a file in it", func() { rename("a/b", "d/b"); write("d/b/c/in") }, []string{"moved a/b d/b", "created d/b/c/in"}},
		{"directories at once", func() { check.OK(t, os.MkdirAll(at("x/y/z"), 0o755)); write("x/y/z/f") }, []string{"created x"}},
		{"a file in one of them", func() { write("x/y/z/g") }, []string{"created x/y/z/g"}},
		{"an exchange", func() {
			check.OK(t, unix.Renameat2(unix.AT_FDCWD, at("x"), unix.AT_FDCWD, at("e"), unix.RENAME_EXCHANGE))
		}, []string{"created e", "created x"}},
		{"files in both", func() { write("x/f/1"); write("e/y/z/2") }, []string{"created e/y/z/2", "created x/f/1"}},
		{"a whole tree that goes", func() { check.OK(t, os.RemoveAll(at("e"))) }, []string{"removed e"}},
		{"a move out", func() { check.OK(t, os.Rename(at("x"), filepath.Join(t.TempDir(), "x"))) }, []string{"removed x"}},
		{"what is reserved", func() { check.OK(t, os.Mkdir(at(".capd-staging-x"), 0o755)); write(".capd-staging-x/f") }, nil},
	} {
		c.do()
		got := n.take(t, w)
		if len(got) > 0 && got[0][0] != 'm' { // moves come first
			slices.Sort(got)
		}
		got = slices.Compact(got)                          // the kernel tells of a truncation and of a write, and one may be read before the other is there
		got = slices.DeleteFunc(got, func(e string) bool { // a file may be told of before it is written
			path, ok := strings.CutPrefix(e, "changed ")
			return ok && slices.Contains(got, "created "+path)
		})
		if c.what == "a whole tree that goes" { // what was in it may be told before
			got = slices.DeleteFunc(got, func(e string) bool { return e != "removed e" })
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	w.Stop()
	if n.dirs != 0 {
		t.Errorf("after all %d directories are counted", n.dirs)
	}
}

// More directories than may be watched are told as such; the end of the store and of the directory are told too.
func TestWatchEnds(t *testing.T) {
	n := &notices{most: 4}
	_, w := watched(t, n)
	if got := n.take(t, w); !slices.Equal(got, []string{"partly"}) || n.dirs > 4 {
		t.Errorf("of four directories are watched %d; told is %q", n.dirs, got)
	}

	n = &notices{}
	dir := t.TempDir()
	check.OK(t, os.MkdirAll(filepath.Join(dir, "sub/deep"), 0o755))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	sub, err := s.Root().Lookup(t.Context(), "sub")
	check.OK(t, err)
	w, err = vfs.WatchIn(t.Context(), sub.(vfs.Dir), n.watch())
	check.OK(t, err)
	check.OK(t, os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "other")))
	check.OK(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	check.Is(t, "a Sync of what was moved away", w.Sync(t.Context()), vfs.Stale)
	other, err := vfs.WatchIn(t.Context(), s.Root(), n.watch())
	check.OK(t, err)
	check.OK(t, s.Close())
	check.Is(t, "a Sync after the end of the store", other.Sync(t.Context()), vfs.Stale)
	w.Stop()
	other.Stop()
	if n.dirs != 0 {
		t.Errorf("after all %d directories are counted", n.dirs)
	}
}

// 10,000 directories cost at most 20 MiB.
func TestWatchMemory(t *testing.T) {
	const many, most = 10_000, 20 << 20
	dir := t.TempDir()
	for i := range many {
		check.OK(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i/100), fmt.Sprintf("directory-%d", i)), 0o755))
	}
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	t.Cleanup(func() { s.Close() })
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	n := &notices{}
	before := heap()
	w, err := vfs.WatchIn(t.Context(), s.Root(), n.watch())
	check.OK(t, err)
	grew := heap() - before
	if n.dirs < many || grew > most {
		t.Errorf("%d directories that are watched take %d KiB", n.dirs, grew>>10)
	}
	t.Logf("changes: %d directories that are watched take %d KiB", n.dirs, grew>>10)
	w.Stop()
}
