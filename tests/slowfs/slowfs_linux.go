// Package slowfs mounts file systems for tests that are slow, or that hang: a real
// FUSE mount, so that a system call on it blocks in the kernel as it does where a disk
// or a server on the network has stopped answering.
//
// A file system shows the files of a directory of the host ([FS.Backing]), where a test
// puts them and looks at them without waiting. It begins fast. Nothing of it is cached
// by the kernel unless [KeepNames] says so: each look at a name, each stat and each read
// asks this process.
package slowfs

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// FS is one mounted file system. Its methods may be called at any time, by several
// goroutines.
type FS struct {
	Path    string // where it is mounted
	Backing string // the directory whose files it shows

	waiting atomic.Int64
	asked   atomic.Int64

	mu    sync.Mutex
	gate  chan struct{} // closed unless the file system hangs
	limit *time.Timer   // of how long it does
	pause time.Duration // for each read, write and sync; 0: none
	free  time.Time     // when the disk is done with what was asked so far
	ended chan struct{} // closed at the end of the test
}

// Mount mounts a file system of its own until the end of the test, which ends whatever
// still waits for it. What has files open there ends before: let it be started later. It skips the test where this user may mount nothing.
func Mount(t testing.TB, o ...Option) *FS {
	t.Helper()
	dir := t.TempDir()
	return MountAt(t, filepath.Join(dir, "mount"), o...)
}

// An Option is for a whole file system.
type Option func(*fs.Options)

// KeepNames has the kernel remember for an hour which names are there, and nothing else:
// a name that was found is found while the file system hangs.
func KeepNames(o *fs.Options) { o.EntryTimeout = new(time.Hour) }

// MountAt is Mount at path, which is made where it is not there. What is below path is
// hidden meanwhile.
func MountAt(t testing.TB, path string, o ...Option) *FS {
	t.Helper()
	f := &FS{Path: path, Backing: t.TempDir(), gate: make(chan struct{}), ended: make(chan struct{})}
	close(f.gate)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	var all fs.Options
	for _, set := range o {
		set(&all)
	}
	server, err := f.serve(&all)
	if err != nil {
		t.Skipf("this machine lets this user mount no FUSE file system: %v", err)
	}
	t.Cleanup(func() {
		close(f.ended)
		for range 100 {
			if server.Unmount() == nil {
				server.Wait()
				return
			}
			time.Sleep(10 * time.Millisecond) // a call that was let go has not ended yet
		}
		_ = unix.Unmount(path, unix.MNT_DETACH) // it ends with who has something open there
	})
	return f
}

func (f *FS) serve(o *fs.Options) (*fuse.Server, error) {
	root, err := fs.NewLoopbackRoot(f.Backing)
	if err != nil {
		return nil, err
	}
	raw := &slow{RawFileSystem: fs.NewNodeFS(root, o), fs: f}
	server, err := fuse.NewServer(raw, f.Path, &fuse.MountOptions{
		FsName:        "slowfs",
		Name:          "slowfs",
		DirectMount:   os.Geteuid() == 0,
		AllowOther:    os.Geteuid() == 0,
		DisableSplice: true, // its pipes would outlast the mount
	})
	if err != nil {
		return nil, err
	}
	shut()
	go server.Serve()
	return server, server.WaitMount()
}

// shut keeps the device from this process's children: what waits here would not end with
// this process.
func shut() {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == "/dev/fuse" {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				unix.CloseOnExec(fd)
			}
		}
	}
}

// mostHang is how long a file system hangs at most: a process that waits for it cannot be
// killed.
const mostHang = 2 * time.Minute

// Hang has every call on the file system wait from now on, until Release or the end of
// the test. What a test starts that waits there cannot be killed: let it be released
// first.
func (f *FS) Hang() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
		f.gate = make(chan struct{})
		f.limit = time.AfterFunc(mostHang, f.Release)
	default:
	}
}

// Release lets go on what Hang has stopped.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.gate:
	default:
		close(f.gate)
		f.limit.Stop()
	}
}

// Delay has the file system do so many reads, writes and syncs a second, one after
// another, as a slow disk does whose directories are in memory. 0 takes the bound away.
func (f *FS) Delay(iops int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pause, f.free = 0, time.Time{}
	if iops > 0 {
		f.pause = time.Second / time.Duration(iops)
	}
}

// Waiting is how many calls wait here now: each is a thread of the process that made it.
func (f *FS) Waiting() int { return int(f.waiting.Load()) }

// Asked is how many calls have come so far.
func (f *FS) Asked() int { return int(f.asked.Load()) }

// File puts a file of size bytes at name, a path below the root. It takes no room on a
// disk, and reads as zeros.
func (f *FS) File(t testing.TB, name string, size int64) {
	t.Helper()
	path := filepath.Join(f.Backing, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

// wait is how long one call takes. heavy calls take a turn of the disk.
func (f *FS) wait(heavy bool) fuse.Status {
	f.asked.Add(1)
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	f.mu.Lock()
	gate, until := f.gate, time.Time{}
	if heavy && f.pause > 0 {
		if now := time.Now(); f.free.Before(now) {
			f.free = now
		}
		f.free = f.free.Add(f.pause)
		until = f.free
	}
	f.mu.Unlock()
	if !until.IsZero() {
		turn := time.NewTimer(time.Until(until))
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-f.ended:
			return fuse.EIO
		}
	}
	select {
	case <-gate:
		return fuse.OK
	case <-f.ended:
		return fuse.EIO
	}
}
