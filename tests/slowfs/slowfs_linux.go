// Package slowfs mounts slow or hanging file systems for tests. They are real FUSE
// mounts. So a system call on one blocks in the kernel, as it does when a disk or a file
// server has stopped answering.
//
// A file system shows the files of a host directory ([FS.Backing]). Tests can use that
// directory without waiting. A file system is fast at first. The kernel caches nothing of
// it, unless [KeepNames] is given: each lookup, stat and read asks the file system.
//
// Each file system is served by a process of its own: the test's program, started again.
// A process that serves what it uses can wait for itself. The process ends with the test,
// even if the test is killed, and its mount with it.
package slowfs

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// FS is one mounted file system. Its methods may be called at any time, by several
// goroutines.
type FS struct {
	Path    string // where it is mounted
	Backing string // the directory whose files it shows

	server *exec.Cmd

	mu      sync.Mutex // one request at a time
	asks    io.Writer
	answers *bufio.Scanner
}

// An Option configures a file system.
type Option string

// KeepNames makes the kernel remember names that were found for an hour, and nothing
// else. So they are found while the file system hangs.
const KeepNames Option = "keepNames"

// KeepContents makes the kernel cache contents, so that files can be mapped into memory, as SQLite does.
const KeepContents Option = "keepContents"

// Mount mounts a file system until the end of the test, which also ends calls that still
// wait. Start later what opens files there, so that it ends first. Mount skips the test
// if this user cannot mount.
func Mount(t testing.TB, o ...Option) *FS {
	t.Helper()
	dir := t.TempDir()
	return MountAt(t, filepath.Join(dir, "mount"), o...)
}

// MountAt is Mount at path, which it makes if it is missing. What is below path is hidden
// meanwhile.
func MountAt(t testing.TB, path string, o ...Option) *FS {
	t.Helper()
	f := &FS{Path: path, Backing: t.TempDir()}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := f.start(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.end)
	if said := f.answer(); said != mounted {
		t.Skipf("this machine lets this user mount no FUSE file system: %s", said)
	}
	return f
}

// start starts the process that serves f.
func (f *FS) start(o []Option) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	f.server = exec.Command(program)
	f.server.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", pathVar+"="+f.Path, backingVar+"="+f.Backing)
	for _, option := range o {
		f.server.Env = append(f.server.Env, optionVar+string(option)+"=1")
	}
	f.server.Stderr = os.Stderr
	if f.asks, err = f.server.StdinPipe(); err != nil {
		return err
	}
	out, err := f.server.StdoutPipe()
	if err != nil {
		return err
	}
	f.answers = bufio.NewScanner(out)
	return f.server.Start()
}

// end kills the process that serves f. Calls that wait then fail.
func (f *FS) end() {
	_ = f.server.Process.Kill()
	_ = f.server.Wait()
	detach(f.Path)
}

// answer returns the next line from the process that serves f, "" if it has ended.
func (f *FS) answer() string {
	f.answers.Scan()
	return f.answers.Text()
}

// ask asks the process that serves f, and returns its answer.
func (f *FS) ask(what ...any) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := fmt.Fprintln(f.asks, what...); err != nil {
		return 0 // it has ended
	}
	n, _ := strconv.Atoi(f.answer())
	return n
}

// Hang makes every call on the file system wait until Release or the end of the test. A
// process that waits there cannot be killed.
func (f *FS) Hang() { f.ask("hang") }

// Release lets the calls go on that Hang has stopped.
func (f *FS) Release() { f.ask("release") }

// Delay makes the file system do iops reads, writes and syncs per second, one after
// another, like a slow disk whose directories are cached. 0 removes the limit.
func (f *FS) Delay(iops int) { f.ask("delay", iops) }

// FailSyncs makes every sync of a file whose name matches pattern, as [path.Match] has it, fail with EIO. "" matches none.
func (f *FS) FailSyncs(pattern string) { f.ask("failSyncs", pattern) }

// Waiting returns how many calls wait here now. Each uses a thread of the process that
// made it.
func (f *FS) Waiting() int { return f.ask("waiting") }

// Asked returns how many calls have come so far.
func (f *FS) Asked() int { return f.ask("asked") }

// File makes a file of size bytes at name, a path below the root. It is sparse: it uses
// no disk space and reads as zeros.
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
