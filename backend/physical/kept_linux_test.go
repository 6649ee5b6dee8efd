package physical_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
)

// opened returns what this process has open in w's directory, except for directories.
func (w served) opened() (paths []string) {
	w.Helper()
	w.store.Settle()
	all, err := os.ReadDir("/proc/self/fd")
	w.ok(err)
	for _, e := range all {
		path, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || !strings.HasPrefix(path, w.dir+"/") || strings.Contains(path, ".capd-staging-") {
			continue
		}
		if fi, err := os.Stat("/proc/self/fd/" + e.Name()); err == nil && !fi.IsDir() {
			paths = append(paths, path)
		}
	}
	return paths
}

func (w served) nothingOpen(when string) {
	w.Helper()
	if left := w.opened(); len(left) > 0 {
		w.Errorf("%s: %q is open", when, left)
	}
}

// kept reads the file at path until it is kept open.
func (w served) kept(path string) vfs.File {
	w.Helper()
	time.Sleep(30 * time.Millisecond) // until its time of change is past
	f := w.file(path)
	for range 3 {
		if _, err := f.ReadAt(w.ctx, make([]byte, 1), 0); err != nil {
			w.Fatalf("ReadAt: %v", err)
		}
	}
	if open := w.opened(); len(open) != 1 || open[0] != w.host(path) {
		w.Fatalf("%q is open, want %s", open, w.host(path))
	}
	return f
}

// serveKept is serve on a file system whose files are kept open.
func serveKept(t *testing.T, o physical.Options) served {
	t.Helper()
	at := scratch.Disk()
	if !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC}, fileSystem(t, at)) {
		at = "/dev/shm"
	}
	dir, err := os.MkdirTemp(at, "capd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(dir+"/served", 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir+"/served", o)
	return served{t, t.Context(), dir + "/served", s, s.Root()}
}

// fileSystem returns the magic number of the file system of dir.
func fileSystem(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Type)
}

// readsNow reads f twice. The first time it does not wait, and may fail; otherwise both
// answers must be the same.
func (w served) readsNow(f vfs.File) (string, error) {
	w.Helper()
	b := make([]byte, 100)
	n, firstErr := f.ReadAt(vfs.Trying(), b, 0)
	first := string(b[:n])
	n, err := f.ReadAt(w.ctx, b, 0)
	if firstErr != vfs.ErrWouldBlock && (first != string(b[:n]) || firstErr != err) {
		w.Errorf("without waiting it reads %q, %v, and then %q, %v", first, firstErr, b[:n], err)
	}
	if err == io.EOF {
		err = nil
	}
	return string(b[:n]), err
}

// TestKeptFile: whatever happens to the place of a File that is kept open, it reads the
// same as a File that is not.
func TestKeptFile(t *testing.T) {
	do := func(errs ...error) error { return errors.Join(errs...) }
	for what, c := range map[string]struct {
		change func(w served) error
		want   string
		code   vfs.Code
		stays  bool // open, that is
	}{
		"nothing": {func(w served) error { return nil }, "old", "", true},
		"replaced by rename": {func(w served) error {
			return do(os.WriteFile(w.host("n"), []byte("new"), 0o644), os.Rename(w.host("n"), w.host("a/d/f")))
		}, "new", "", false},
		"exchanged": {func(w served) error {
			return do(os.WriteFile(w.host("n"), []byte("new"), 0o644), unix.Renameat2(-1, w.host("n"), -1, w.host("a/d/f"), unix.RENAME_EXCHANGE))
		}, "new", "", false},
		"written in place": {func(w served) error { return os.WriteFile(w.host("a/d/f"), []byte("newer"), 0o644) }, "newer", "", false},
		"cut":              {func(w served) error { return os.Truncate(w.host("a/d/f"), 1) }, "o", "", false},
		"lengthened":       {func(w served) error { return os.Truncate(w.host("a/d/f"), 4) }, "old\x00", "", false},
		"removed":          {func(w served) error { return os.Remove(w.host("a/d/f")) }, "", vfs.NotFound, false},
		"moved away":       {func(w served) error { return os.Rename(w.host("a/d/f"), w.host("a/d/g")) }, "", vfs.NotFound, false},
		"moved outside":    {func(w served) error { return os.Rename(w.host("a/d/f"), w.host("../f")) }, "", vfs.NotFound, false},
		"made again": {func(w served) error {
			return do(os.Remove(w.host("a/d/f")), os.WriteFile(w.host("a/d/f"), []byte("new"), 0o644))
		}, "new", "", false},
		"another name": {func(w served) error { return os.Link(w.host("a/d/f"), w.host("../f")) }, "old", "", false},
		"another mode": {func(w served) error { return os.Chmod(w.host("a/d/f"), 0o600) }, "old", "", false},
		"a FIFO": {func(w served) error {
			return do(os.Remove(w.host("a/d/f")), unix.Mkfifo(w.host("a/d/f"), 0o666))
		}, "", vfs.Stale, false},
		"a directory": {func(w served) error { return do(os.Remove(w.host("a/d/f")), os.Mkdir(w.host("a/d/f"), 0o755)) }, "", vfs.Stale, false},
		"a link to it": {func(w served) error {
			return do(os.Rename(w.host("a/d/f"), w.host("../f")), os.Symlink("../../../f", w.host("a/d/f")))
		}, "", vfs.Stale, false},
		"its directory moved and back": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Rename(w.host("../d"), w.host("a/d")))
		}, "old", "", true},
		"its directory moved inside":  {func(w served) error { return os.Rename(w.host("a/d"), w.host("d")) }, "", vfs.Stale, false},
		"its directory moved outside": {func(w served) error { return os.Rename(w.host("a/d"), w.host("../d")) }, "", vfs.Stale, false},
		"its directory moved outside, a link in its place": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Symlink("../../d", w.host("a/d")))
		}, "", vfs.Stale, false},
		"the one above moved inside, a link in its place": {func(w served) error {
			return do(os.Rename(w.host("a"), w.host("b")), os.Symlink("b", w.host("a")))
		}, "", vfs.Stale, false},
		"its directory made again, with the same file": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Mkdir(w.host("a/d"), 0o755), os.Rename(w.host("../d/f"), w.host("a/d/f")))
		}, "", vfs.Stale, false},
		"its directory made again, with a link to the same file": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Mkdir(w.host("a/d"), 0o755), os.Link(w.host("../d/f"), w.host("a/d/f")))
		}, "", vfs.Stale, false},
		"its directory made again, with the same file, exchanged": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Mkdir(w.host("a/d"), 0o755), os.WriteFile(w.host("a/d/f"), nil, 0o644),
				unix.Renameat2(-1, w.host("../d/f"), -1, w.host("a/d/f"), unix.RENAME_EXCHANGE))
		}, "", vfs.Stale, false},
		"its directory made again, with the same file and no other name": {func(w served) error {
			return do(os.Rename(w.host("a/d"), w.host("../d")), os.Mkdir(w.host("a/d"), 0o755),
				os.Link(w.host("../d/f"), w.host("a/d/f")), os.Remove(w.host("../d/f")))
		}, "", vfs.Stale, false},
	} {
		t.Run(what, func(t *testing.T) {
			for _, tells := range []bool{true, false} {
				w := serveKept(t, physical.Options{})
				if !tells {
					w.store.TellsLess()
				}
				w.mkdir("a/d")
				w.write("a/d/f", "old")
				f := w.kept("a/d/f")
				w.ok(c.change(w))
				w.within(what, func() {
					got, err := w.readsNow(f)
					w.is("reading", err, c.code)
					if got != c.want {
						t.Errorf("it reads %q, want %q", got, c.want)
					}
				})
				if n := len(w.opened()); (n == 1) != c.stays {
					t.Errorf("%q is open", w.opened())
				}
			}
		})
	}
}

// TestKeptFileUnderMount: a mount over a file that is kept open, or over its directory,
// hides it.
func TestKeptFileUnderMount(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	for over, with := range map[string]string{"a/d/f": "../outside/f", "a/d": "../outside", "a": "../outside"} {
		w := serveKept(t, physical.Options{})
		w.mkdir("a/d")
		w.mkdir("../outside/d")
		w.write("../outside/f", "outside")
		w.write("../outside/d/f", "outside")
		w.write("a/d/f", "old")
		f := w.kept("a/d/f")
		w.mount(w.host(with), w.host(over), "", unix.MS_BIND, "")
		got, err := w.readsNow(f)
		w.is("reading under a mount over "+over, err, vfs.CrossDevice)
		if got != "" {
			t.Errorf("under a mount over %s it reads %q", over, got)
		}
		w.nothingOpen("after a mount over " + over)
	}
}

// TestKeptFileGoes: what capd itself removes is closed by then, so that its room on the
// disk is free.
func TestKeptFileGoes(t *testing.T) {
	for what, change := range map[string]func(w served, f vfs.File) error{
		"Remove":  func(w served, f vfs.File) error { return w.sub("a").Remove(w.ctx, "f", vfs.If{}) },
		"Replace": func(w served, f vfs.File) error { return w.put(w.sub("a"), "f", "new", vfs.If{}) },
		"Remove of a version": func(w served, f vfs.File) error {
			v, err := vfs.VersionOf(w.ctx, f)
			w.ok(err)
			return w.sub("a").Remove(w.ctx, "f", vfs.If{Is: v})
		},
		"Replace of a version": func(w served, f vfs.File) error {
			v, err := vfs.VersionOf(w.ctx, f)
			w.ok(err)
			return w.put(w.sub("a"), "f", "new", vfs.If{Is: v})
		},
		"Rename": func(w served, f vfs.File) error {
			return w.sub("a").Rename(w.ctx, "f", w.root, "f", vfs.If{}, vfs.If{})
		},
		"Rename of its directory": func(w served, f vfs.File) error { return w.root.Rename(w.ctx, "a", w.root, "b", vfs.If{}, vfs.If{}) },
		"Rename over it": func(w served, f vfs.File) error {
			v, err := vfs.VersionOf(w.ctx, f)
			w.ok(err)
			w.write("g", "new")
			return w.root.Rename(w.ctx, "g", w.sub("a"), "f", vfs.If{}, vfs.If{Is: v})
		},
		"Truncate":    func(w served, f vfs.File) error { return f.Truncate(w.ctx, 0, vfs.If{}) },
		"Close":       func(w served, f vfs.File) error { return f.Close() },
		"Store.Close": func(w served, f vfs.File) error { return w.store.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			w := serveKept(t, physical.Options{})
			w.mkdir("a")
			w.write("a/f", "old")
			w.ok(change(w, w.kept("a/f")))
			w.nothingOpen(what)
		})
	}
}

// TestKeptFileIsReplaced reads a file while capd replaces it. Each reader sees a whole
// content, and no old one stays open.
func TestKeptFileIsReplaced(t *testing.T) {
	w := serveKept(t, physical.Options{})
	content := func(i int) string { return strings.Repeat(fmt.Sprintf("%04d", i), 1000) }
	w.write("f", content(0))
	f := w.file("f")
	ctx, stop := context.WithCancel(w.ctx)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			b := make([]byte, 4000)
			for ctx.Err() == nil {
				if n, err := f.ReadAt(w.ctx, b, 0); n != len(b) || err != nil || !bytes.Equal(b[:2000], b[2000:]) {
					t.Errorf("ReadAt = %d, %v", n, err)
					return
				}
			}
		})
	}
	kept := 0
	for i := range 20 {
		time.Sleep(30 * time.Millisecond)
		for _, path := range w.opened() {
			if path == w.host("f") {
				kept++
			}
		}
		w.ok(w.put(w.root, "f", content(i+1), vfs.If{}))
	}
	stop()
	readers.Wait()
	if kept < 10 {
		t.Errorf("it was found open %d times in 20: the rest says little", kept)
	}
	for _, path := range w.opened() {
		if path != w.host("f") {
			t.Errorf("%s is open", path)
		}
	}
	w.ok(f.Close())
	w.nothingOpen("at the end")
}

// TestKeptFilesAreBounded reads more files than may be open, and a few among many
// directories.
func TestKeptFilesAreBounded(t *testing.T) {
	w := serveKept(t, physical.Options{MaxDescriptors: 8})
	for i := range 50 {
		w.mkdir(fmt.Sprint(i))
		w.write(fmt.Sprintf("%d/f", i), fmt.Sprint(i))
	}
	time.Sleep(30 * time.Millisecond)
	for i := range 50 {
		f := w.file(fmt.Sprintf("%d/f", i))
		for range 3 {
			if got, err := w.readsNow(f); got != fmt.Sprint(i) || err != nil {
				t.Fatalf("file %d reads %q, %v", i, got, err)
			}
		}
		if n := len(w.opened()); n == 0 || n > 8 || w.store.Stats().Descriptors > 8 {
			t.Fatalf("%d files are open, and %d in all, want at most 8", n, w.store.Stats().Descriptors)
		}
	}
	w.ok(w.store.Close())
	w.nothingOpen("after Close")
}

// TestKeptOnce: a file that is read once is not kept. Neither is one that was just
// written, or one with two names.
func TestKeptOnce(t *testing.T) {
	w := serveKept(t, physical.Options{})
	for _, name := range []string{"once", "two", "fresh"} {
		w.write(name, name)
	}
	w.ok(os.Link(w.host("two"), w.host("names")))
	time.Sleep(30 * time.Millisecond)
	for name, times := range map[string]int{"once": 1, "two": 5, "fresh": 5} {
		f := w.file(name)
		for range times {
			if name == "fresh" {
				w.write(name, name)
			}
			if _, err := f.ReadAt(w.ctx, make([]byte, 1), 0); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.nothingOpen(name)
	}
}

// TestTryingToRead: what is in memory is read without waiting, and what is on disk is
// not.
func TestTryingToRead(t *testing.T) {
	w := serveKept(t, physical.Options{})
	const size = 1 << 20
	w.write("f", strings.Repeat("x", size))
	disk, err := os.Open(w.host("f"))
	w.ok(err)
	defer disk.Close()
	w.ok(disk.Sync())
	time.Sleep(30 * time.Millisecond)
	f := w.file("f")
	try := func(off int64) error {
		n, err := f.ReadAt(vfs.Trying(), make([]byte, 4096), off)
		if err == nil && n != 4096 {
			t.Errorf("it reads %d bytes", n)
		}
		return err
	}
	read := func(off int64) {
		if _, err := f.ReadAt(w.ctx, make([]byte, 4096), off); err != nil {
			t.Error(err)
		}
	}
	if err := try(0); err != vfs.ErrWouldBlock {
		t.Errorf("before it is kept: %v", err)
	}
	read(0)
	read(0)
	if err := try(0); err == vfs.ErrWouldBlock {
		t.Log("this file system reads nothing without waiting")
		return
	} else if err != nil {
		t.Errorf("what is in memory: %v", err)
	}
	const far = size / 2
	w.ok(unix.Fadvise(int(disk.Fd()), 0, 0, unix.FADV_DONTNEED))
	err = try(far)
	for end := time.Now().Add(5 * time.Second); err == nil && time.Now().Before(end); err = try(far) {
		time.Sleep(10 * time.Millisecond) // a page that the kernel is busy with stays
		w.ok(unix.Fadvise(int(disk.Fd()), 0, 0, unix.FADV_DONTNEED))
	}
	if err != vfs.ErrWouldBlock {
		t.Errorf("what is on disk: %v", err)
	}
	read(far)
	if err := try(far); err != nil {
		t.Errorf("what was read a moment ago: %v", err)
	}
}

// TestTryingToLook: a second look at something does not wait.
func TestTryingToLook(t *testing.T) {
	w := serveKept(t, physical.Options{})
	w.mkdir("a/d")
	w.write("a/d/f", "inside")
	w.ok(os.Symlink("f", w.host("a/d/l")))
	d, f := w.sub("a/d"), w.file("a/d/f")
	for name, want := range map[string]vfs.Kind{"f": vfs.FileKind, "l": vfs.LinkKind, "../d": vfs.Other, "missing": vfs.Other} {
		_, werr := d.Lookup(w.ctx, name)
		n, err := d.Lookup(vfs.Trying(), name)
		if name == "missing" && err == vfs.ErrWouldBlock && fileSystem(t, w.dir) == unix.TMPFS_MAGIC {
			continue // it keeps nothing of what is not there
		}
		if vfs.CodeOf(err) != vfs.CodeOf(werr) || err == nil && vfs.KindOf(n) != want {
			t.Errorf("trying, Lookup of %s = %v, %v, want %v, %v", name, n, err, want, werr)
		}
	}
	if n, err := w.sub("a").Lookup(vfs.Trying(), "d"); err != nil {
		t.Errorf("trying, Lookup of a directory: %v", err)
	} else if _, err := n.(vfs.Dir).Lookup(w.ctx, "f"); err != nil {
		t.Errorf("a directory that was found by trying: %v", err)
	}
	if info, err := f.Stat(vfs.Trying()); err != nil || info.Size != 6 {
		t.Errorf("trying, Stat = %+v, %v", info, err)
	}
	if _, err := w.at("a/d/l").(vfs.Link).Target(vfs.Trying()); err != vfs.ErrWouldBlock {
		t.Errorf("trying, Target: %v", err)
	}
	w.ok(w.store.Close())
	for what, err := range map[string]error{
		"Stat":   trying(w.ctx, f, func(ctx context.Context) error { _, err := f.Stat(ctx); return err }),
		"Lookup": trying(w.ctx, d, func(ctx context.Context) error { _, err := d.Lookup(ctx, "f"); return err }),
		"ReadAt": trying(w.ctx, f, func(ctx context.Context) error { _, err := f.ReadAt(ctx, make([]byte, 1), 0); return err }),
	} {
		w.is(what+" after Close", err, vfs.Stale)
	}
}
