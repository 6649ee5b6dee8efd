package materialize_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/deny"
	"capd/vfs/vfstest"
)

// These are things that a hostile program leaves in the directory, and their effect. The
// numbers are those of capd's attacks.

// outside is a file beside the tree, and a check that it is unchanged.
func outside(t *testing.T) (path string, untouched func()) {
	path = filepath.Join(t.TempDir(), "secret")
	ok(t, os.WriteFile(path, []byte("secret"), 0o600))
	return path, func() {
		t.Helper()
		if data, err := os.ReadFile(path); err != nil || string(data) != "secret" {
			t.Errorf("what is outside holds %q, %v", data, err)
		}
	}
}

func replace(t *testing.T, path, target string) {
	t.Helper()
	ok(t, os.RemoveAll(path))
	ok(t, os.Symlink(target, path))
}

func TestCase50LinkOut(t *testing.T) {
	secret, untouched := outside(t)
	w := start(t, sample, materialize.Options{})
	ok(t, os.Symlink(secret, w.at("n")))
	replace(t, w.at("a"), secret)
	replace(t, w.at("l"), secret)
	r := w.sync(t)
	skipped(t, r.Skipped, "a", "l", "n")
	w.holds(t, sample)
	untouched()
	ok(t, w.tree.Close())
	untouched()
}

func TestCase51DirectoryReplacedByLink(t *testing.T) {
	secret, untouched := outside(t)
	w := start(t, sample, materialize.Options{})
	replace(t, w.at("d"), filepath.Dir(secret))
	w.write(t, "a", "new")
	r := w.sync(t)
	skipped(t, r.Skipped, "d")
	w.holds(t, sample.with(tree{"a": "file:new"}))

	// The same in the Dir, where somebody turns a directory into a link meanwhile.
	w = start(t, sample, materialize.Options{})
	w.write(t, "hollow/n", "through a link")
	ok(t, w.store.Root().Remove(t.Context(), "hollow", vfs.If{}))
	ok(t, vfstest.Symlink(w.store.Root())("hollow", "d/e"))
	_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	conflicts(t, err, "hollow/n")
	w.holds(t, sample.with(tree{"hollow": "link:d/e"}))
	untouched()
}

// A program swaps directories and files with links all the time. Nothing outside is ever
// read.
func TestCase51Race(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "f"), []byte("secret"), 0o600))
	w := start(t, tree{"d": "dir", "d/f": "file:mine"}, materialize.Options{})
	ok(t, os.Symlink(dir, w.at("other")))
	ok(t, os.Symlink(filepath.Join(dir, "f"), w.at("d/other")))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if i%2 == 0 {
				_ = unix.Renameat2(unix.AT_FDCWD, w.at("d"), unix.AT_FDCWD, w.at("other"), unix.RENAME_EXCHANGE)
			} else {
				_ = unix.Renameat2(unix.AT_FDCWD, w.at("d/f"), unix.AT_FDCWD, w.at("d/other"), unix.RENAME_EXCHANGE)
			}
		}
	}()
	seen, secret := 0, vfs.Version(sha256.Sum256([]byte("secret")))
	for range 2000 {
		c, err := w.tree.Changes(t.Context())
		if err != nil {
			is(t, "Changes", err, vfs.Busy)
			continue
		}
		seen++
		for _, change := range c.List {
			if change.Is.Version == secret {
				t.Fatalf("%s is brought back as %v", change.Path, change.Is)
			}
		}
	}
	close(stop)
	<-stopped
	if seen == 0 {
		t.Errorf("it was busy each time")
	}
}

func TestCase52SpecialFiles(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	ok(t, unix.Mkfifo(w.at("fifo"), 0o600))
	ok(t, os.Remove(w.at("a")))
	ok(t, unix.Mkfifo(w.at("a"), 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	ok(t, err)
	defer unix.Close(fd)
	ok(t, unix.Bind(fd, &unix.SockaddrUnix{Name: w.at("socket")}))
	want := []string{"a", "fifo", "socket"}
	if unix.Mknod(w.at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))) == nil { // needs root
		want = []string{"a", "device", "fifo", "socket"}
	}
	r := w.sync(t)
	skipped(t, r.Skipped, want...)
	w.holds(t, sample)
}

func TestCase53Sparse(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "a", "new")
	ok(t, os.WriteFile(w.at("sparse"), nil, 0o600))
	if err := os.Truncate(w.at("sparse"), 15<<40); errors.Is(err, unix.EFBIG) {
		t.Skip("this file system has no files of 15 TiB")
	} else {
		ok(t, err)
	}
	begun := time.Now()
	_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	is(t, "Sync", err, vfs.Limit)
	if d := time.Since(begun); d > time.Minute { // to read it takes hours
		t.Errorf("it took %v", d)
	}
	w.holds(t, sample)
}

// The room on the disk that a file takes beyond its bytes is bounded too.
func TestCase53Allocated(t *testing.T) {
	w := start(t, sample, materialize.Options{Bounds: materialize.Bounds{Bytes: 1 << 20}})
	f, err := os.Create(w.at("allocated"))
	ok(t, err)
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 8<<20); err != nil {
		t.Skip("this file system does not allocate:", err)
	}
	_, err = w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	is(t, "Sync", err, vfs.Limit)
	w.holds(t, sample)
}

func TestCase54Setuid(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "n", "#!")
	ok(t, unix.Chmod(w.at("n"), 0o4755))
	ok(t, unix.Chmod(w.at("a"), 0o6755))
	ok(t, unix.Chmod(w.at("hollow"), 0o1777))
	skipped(t, w.sync(t).Skipped)
	w.holds(t, sample.with(tree{"n": "exec:#!", "a": "exec:old"}))
	skipped(t, w.sync(t).Skipped)
}

// On the host's own file system nothing of it arrives either.
func TestCase54SetuidOnHost(t *testing.T) {
	dir := t.TempDir()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	defer s.Close()
	put(t, s.Root(), "a", "old")
	tr, err := newBase(t, t.TempDir()).New(t.Context(), s.Root(), materialize.Options{})
	ok(t, err)
	defer tr.Close()
	for _, name := range []string{"a", "n"} {
		ok(t, os.WriteFile(filepath.Join(tr.Path(), name), []byte("new"), 0o600))
		ok(t, unix.Chmod(filepath.Join(tr.Path(), name), 0o6755))
	}
	_, err = tr.Sync(t.Context(), memory.New(memory.Limits{}).Root(), materialize.SyncOptions{})
	ok(t, err)
	for _, name := range []string{"a", "n"} {
		info, err := os.Stat(filepath.Join(dir, name))
		ok(t, err)
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid|os.ModeSticky) != 0 || info.Mode()&0o100 == 0 || info.Size() != 3 {
			t.Errorf("%s has mode %v and %d bytes", name, info.Mode(), info.Size())
		}
	}
}

func TestCase55ForgedTimes(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	info, err := os.Stat(w.at("a"))
	ok(t, err)
	time.Sleep(30 * time.Millisecond) // by now its times vouch for it
	f, err := os.OpenFile(w.at("a"), os.O_WRONLY, 0)
	ok(t, err)
	_, err = f.WriteString("mal")
	ok(t, err)
	ok(t, f.Close())
	ok(t, os.Chtimes(w.at("a"), info.ModTime(), info.ModTime()))
	w.sync(t)
	w.holds(t, sample.with(tree{"a": "file:mal"}))
}

// A file that is written right after it was materialized or synced may have the same
// times.
func TestCase55AtOnce(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	for _, data := range []string{"001", "002", "003", "004", "005"} {
		f, err := os.OpenFile(w.at("a"), os.O_WRONLY, 0)
		ok(t, err)
		_, err = f.WriteString(data)
		ok(t, err)
		ok(t, f.Close())
		w.sync(t)
		w.holds(t, sample.with(tree{"a": "file:" + data}))
	}
}

func TestCase56ChangedMeanwhile(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "a", "mine")
	w.write(t, "d/g", "mine")
	w.write(t, "n", "mine")
	ok(t, os.Remove(w.at("x")))
	w.write(t, "d/e/f", "no conflict")
	d := w.store.Root()
	for _, path := range []string{"a", "n", "x"} {
		put(t, d, path, "another's")
	}
	_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{})
	conflicts(t, err, "a", "n", "x")
	w.holds(t, sample.with(tree{"a": "file:another's", "n": "file:another's", "x": "exec:another's"}))
	put(t, d, "a", "mine") // the same on both sides is no conflict
	r, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Paths: []string{"a", "d"}})
	ok(t, err)
	if len(r.Changes) != 3 {
		t.Errorf("brings back %+v", r.Changes)
	}
	w.holds(t, sample.with(tree{"a": "file:mine", "d/g": "file:mine", "d/e/f": "file:no conflict", "n": "file:another's", "x": "exec:another's"}))
}

func TestCase57Denied(t *testing.T) {
	rules, err := deny.Compile(deny.Secrets...)
	ok(t, err)
	hidden := sample.with(tree{".env": "file:key", "d/.ssh": "dir", "d/.ssh/id": "file:key"})
	for _, path := range []string{".ssh/authorized_keys", "d/.ssh/id", ".ENV"} {
		w := start(t, hidden, materialize.Options{}, rules.Guard())
		for _, secret := range []string{".env", "d/.ssh"} {
			if _, err := os.Lstat(w.at(secret)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was materialized: %v", secret, err)
			}
		}
		w.write(t, "a", "new")
		w.write(t, path, "mine")
		top := path
		if i := strings.LastIndex(path, ".ssh/"); i >= 0 {
			top = path[:i+len(".ssh")]
		}
		skipped(t, w.sync(t).Skipped, top)
		w.holds(t, hidden.with(tree{"a": "file:new"}))
	}
}

// A writer that survives is stopped before the directory is looked at. If it is not
// stopped, the Sync does not sync back what it still writes to.
func TestCase58SurvivingWriter(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(w.at("a"), []byte{byte('a' + i%26), byte('a' + i%25)}, 0o600)
			}
		}
	}()
	_, err := w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Stop: func() error {
		close(stop)
		<-stopped
		return os.WriteFile(w.at("a"), []byte("last"), 0o600)
	}})
	ok(t, err)
	w.holds(t, sample.with(tree{"a": "file:last"}))

	_, err = w.tree.Sync(t.Context(), w.journal, materialize.SyncOptions{Stop: func() error { return vfs.Busy }})
	is(t, "a Stop that fails", err, vfs.Busy)
}

// A file changes after it was looked at, and before or while it is staged.
func TestCase58ChangedWhileStaged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path string){
		"written":  func(t *testing.T, path string) { ok(t, os.WriteFile(path, []byte("two"), 0o600)) },
		"longer":   func(t *testing.T, path string) { ok(t, os.WriteFile(path, []byte("longer"), 0o600)) },
		"gone":     func(t *testing.T, path string) { ok(t, os.Remove(path)) },
		"replaced": func(t *testing.T, path string) { replace(t, path, "d/g") },
		"a fifo": func(t *testing.T, path string) {
			ok(t, os.Remove(path))
			ok(t, unix.Mkfifo(path, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, sample, materialize.Options{})
			w.write(t, "a", "one")
			c, err := w.tree.Changes(t.Context())
			ok(t, err)
			if len(c.List) != 1 {
				t.Fatalf("changes are %+v", c.List)
			}
			time.Sleep(30 * time.Millisecond)
			change(t, w.at("a"))
			_, err = batch.Run(t.Context(), w.journal, w.store.Root(), c.List, batch.Options{})
			is(t, "the batch", err, vfs.Busy)
			w.holds(t, sample)
		})
	}
}
