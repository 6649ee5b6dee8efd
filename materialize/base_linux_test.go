package materialize_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"capd/materialize"
)

// childBase tells a child process where to materialize.
const childBase = "CAPD_MATERIALIZE_BASE"

func TestMain(m *testing.M) {
	if base := os.Getenv(childBase); base != "" {
		child(base)
	}
	os.Exit(m.Run())
}

// child materializes a tree and dies, in the middle of it or when it is done.
func child(base string) {
	t := &testing.T{}
	b, err := materialize.OpenAmbient(base)
	if err == nil {
		o := materialize.Options{Workers: 1}
		if os.Getenv("CAPD_MATERIALIZE_MIDWAY") != "" {
			o.Progress = func(p materialize.Progress) {
				if p.Entries() == 5 {
					kill()
				}
			}
		}
		_, err = b.New(context.Background(), newStore(t, sample).Root(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	kill()
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// The next start removes what a killed process left, but not what belongs to a living
// one.
func TestKilled(t *testing.T) {
	base := filepath.Join(t.TempDir(), "on", "the", "way")
	mine, err := newBase(t, base).New(t.Context(), newStore(t, sample).Root(), materialize.Options{})
	ok(t, err)
	defer mine.Close()
	for _, midway := range []string{"", "1"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childBase+"="+base, "CAPD_MATERIALIZE_MIDWAY="+midway)
		out, err := cmd.CombinedOutput()
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() {
			t.Fatalf("%v: %s", err, out)
		}
	}
	before, err := os.ReadDir(base)
	ok(t, err)
	newBase(t, base)
	after, err := os.ReadDir(base)
	ok(t, err)
	if len(before) != 4 || len(after) != 2 { // the second child swept what the first left
		t.Errorf("%d entries and then %d, want 4 and 2", len(before), len(after))
	}
	if got := readHost(t, mine.Path()); len(got) != len(sample) {
		t.Errorf("of the tree in use there is %v", got)
	}
}

// Only the directories of trees are removed.
func TestSweepLeavesOthers(t *testing.T) {
	base := t.TempDir()
	for _, name := range []string{"notes", "0123456789abcdef0123456789abcdeX", strings.Repeat("a", 31)} {
		ok(t, os.Mkdir(filepath.Join(base, name), 0o700))
	}
	orphan := filepath.Join(base, strings.Repeat("a", 32))
	ok(t, os.MkdirAll(filepath.Join(orphan, "tree", "x", "y", "z"), 0o700))
	ok(t, os.MkdirAll(filepath.Join(orphan, "moved-1", "x"), 0o700)) // of a sweep that was interrupted
	ok(t, os.WriteFile(filepath.Join(base, strings.Repeat("b", 32)+".owner"), nil, 0o600))
	ok(t, os.Chmod(base, 0o755))
	newBase(t, base)
	if got := readHost(t, base); len(got) != 3 {
		t.Errorf("there is %v", got)
	}
	info, err := os.Stat(base)
	ok(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("others may enter: %v", info.Mode())
	}
}

func TestOpenAmbientRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := materialize.OpenAmbient(file); err == nil {
		t.Errorf("a file is a base")
	}
	if os.Geteuid() == 0 {
		dir := t.TempDir()
		ok(t, os.Chown(dir, 12345, -1))
		if _, err := materialize.OpenAmbient(dir); err == nil {
			t.Errorf("another user's directory is a base")
		}
	}
}

// Close removes whatever a program left there, and nothing to which links lead.
func TestCloseRemovesAnything(t *testing.T) {
	secret, untouched := outside(t)
	w := start(t, sample, materialize.Options{})
	ok(t, os.Symlink(filepath.Dir(secret), w.at("out")))
	ok(t, unix.Mkfifo(w.at("fifo"), 0))
	for i := range 3000 {
		ok(t, os.WriteFile(w.at(fmt.Sprint("f", i)), nil, 0))
	}
	// It is deeper than a path can name, and nobody may enter it.
	at, err := unix.Open(w.dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	ok(t, err)
	for range 1000 {
		ok(t, unix.Mkdirat(at, "deep", 0o700))
		ok(t, unix.Symlinkat(secret, at, "out-of-here"))
		next, err := unix.Openat(at, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		ok(t, err)
		ok(t, unix.Fchmod(at, 0o500))
		unix.Close(at)
		at = next
	}
	ok(t, unix.Fchmod(at, 0))
	unix.Close(at)
	ok(t, os.Chmod(w.at("d"), 0))
	ok(t, w.tree.Close())
	if got := readHost(t, w.base); len(got) > 0 {
		t.Errorf("there is %d entries still", len(got))
	}
	untouched()
}

// The same for a user who is not root, who is kept out by modes.
func TestCloseUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("TestCloseRemovesAnything is this test already")
	}
	dir, err := os.MkdirTemp("", "capd-materialize-") // t.TempDir is root's alone
	ok(t, err)
	defer os.RemoveAll(dir)
	ok(t, os.Chown(dir, 65534, 65534))
	binary := filepath.Join(dir, "test")
	self, err := os.Executable()
	ok(t, err)
	ok(t, exec.Command("cp", self, binary).Run()) // another process: what this one forks would keep it busy
	cmd := exec.Command(binary, "-test.run=^(TestCloseRemovesAnything|TestBackClosed|TestPrune)$", "-test.timeout=60s")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
