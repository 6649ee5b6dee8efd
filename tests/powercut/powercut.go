// Package powercut runs a test on every state in which a power cut may leave a
// directory that a program works in.
//
// The program runs under strace(1). Its system calls below the directory are
// applied to a model of a file system, which keeps only what fsync(2) and syncfs(2)
// promise. The idea is that of ALICE: Pillai and others, "All File Systems Are Not
// Created Equal", OSDI 2014. For each moment the model returns what may be left.
// That includes the worst: a name without its content, a content without its name,
// a change of a name without earlier changes.
//
// The model is as weak as POSIX allows, with two exceptions that hold on every file
// system with a journal. A link's target is stored with its name. A rename is one
// step: the old name does not go without the new one, unless only the directory of
// the old one is synced.
package powercut

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"capd/tests/scratch"
)

// Record records what a program did below a directory.
type Record struct {
	dir   string
	root  *inode
	calls []string       // the calls in order, for people
	said  map[int]string // what was printed, by the number of calls before
}

// traced are the system calls that change a file system or write it to disk.
const traced = "open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,symlink,symlinkat,link,linkat," +
	"unlink,unlinkat,rmdir,rename,renameat,renameat2,write,pwrite64,writev,pwritev,pwritev2," +
	"sendfile,splice,copy_file_range,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat," +
	"fsync,fdatasync,sync,syncfs"

// Run runs cmd, which works below dir. cmd prints a line when something is done
// that it promises to keep. What is in dir at the start counts as synced. At the
// end the model is compared with dir.
func Run(t testing.TB, dir string, cmd *exec.Cmd) *Record {
	t.Helper()
	strace := need(t)
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := &Record{dir: dir, said: map[int]string{}}
	if r.root, err = onDisk(dir); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "trace")
	args := []string{strace, "--seccomp-bpf", "-f", "-qq", "-y", "-xx", "-s", "4194304", "-e", "signal=none", "-e", "trace=" + traced, "-o", out, "--", cmd.Path}
	cmd.Path, cmd.Args = strace, append(args, cmd.Args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("running the program under strace: %v", err)
	}
	text, err := os.ReadFile(out)
	if err == nil {
		err = r.play(text)
	}
	if err == nil {
		err = r.same(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// need returns strace's path. Without strace the test is skipped, or fails where
// everything has to be installed.
func need(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("strace")
	if err == nil {
		err = exec.Command(path, "-f", "--seccomp-bpf", "-qq", "-o", os.DevNull, "true").Run()
	}
	if err != nil {
		if thorough || os.Getenv("CI") != "" {
			t.Fatalf("a power cut needs strace(1), which does not work here: %v", err)
		}
		t.Skipf("a power cut needs strace(1), which does not work here: %v", err)
	}
	return path
}

var thorough = os.Getenv("CAPD_CI") != ""

// maxPlain is how many calls a program may make so that a plain run tries all states.
const maxPlain = 120

// maxReported is the most failing states that are reported.
const maxReported = 3

// Each calls check for each state in which the directory may be left. dir holds the
// state, and said the lines that the program had printed. If the program made more
// than maxPlain calls, a plain run leaves out states in which a single change is
// lost, or is kept alone.
func (r *Record) Each(t *testing.T, check func(dir string, said []string) error) {
	t.Helper()
	seen := map[[sha256.Size]byte]bool{}
	failures, printed := 0, ""
	for at := range len(r.calls) + 1 {
		printed += r.said[at]
		said := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
		if printed == "" {
			said = nil
		}
		for _, loss := range r.losses(at) {
			left := r.root.left(at, loss.keeps)
			key := sha256.Sum256([]byte(printed + "\x00" + left.String()))
			if seen[key] {
				continue
			}
			seen[key] = true
			if err := try(left, said, check); err != nil {
				t.Errorf("%s, after %s, which said %q: %v\nleft was\n%s", loss.name, r.before(at), said, err, left)
				if failures++; failures == maxReported {
					t.Fatal("and perhaps more")
				}
			}
		}
	}
	t.Logf("%d calls, %d states", len(r.calls), len(seen))
	if len(seen) < 10 {
		t.Error("vacuous: the program did nothing that could be lost")
	}
}

func (r *Record) before(at int) string {
	if at == 0 {
		return "nothing"
	}
	return r.calls[at-1]
}

func try(left tree, said []string, check func(string, []string) error) (err error) {
	dir, err := os.MkdirTemp(scratch.Memory(), "powercut-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := left.write(dir); err != nil {
		return err
	}
	return check(dir, said)
}

// same checks that the model ended with the content of dir.
func (r *Record) same(dir string) error {
	real, err := onDisk(dir)
	if err != nil {
		return err
	}
	end := len(r.calls)
	all := func(*part) keeping { return kept }
	got, want := r.root.left(end, all).String(), real.left(end, all).String()
	if got != want {
		return fmt.Errorf("the model ends with\n%s\nand the directory is\n%s", got, want)
	}
	return nil
}

// loss chooses which of the changes that may be lost are lost.
type loss struct {
	name  string
	keeps func(*part) keeping
}

// losses returns the ways in which a power cut after at calls may lose changes that
// are not on disk.
func (r *Record) losses(at int) []loss {
	names, data := func(p *part) bool { return p.name != "" }, func(p *part) bool { return p.name == "" }
	some := func(which func(*part) bool, otherwise keeping) func(*part) keeping {
		return func(p *part) keeping {
			if which(p) {
				return kept
			}
			return otherwise
		}
	}
	all := []loss{
		{"nothing lost", func(*part) keeping { return kept }},
		{"all lost that was not synced", func(*part) keeping { return lost }},
		{"contents lost that were not synced", some(names, lost)},
		{"contents zero that were not synced", some(names, zeroed)},
		{"names lost that were not synced", some(data, lost)},
	}
	if !thorough && len(r.calls) > maxPlain {
		return all
	}
	for _, one := range r.root.unsynced(at) {
		is := func(p *part) bool { return p == one }
		all = append(all,
			loss{"kept alone: " + r.calls[one.at], some(is, lost)},
			loss{"lost alone: " + r.calls[one.at], some(func(p *part) bool { return !is(p) }, lost)})
	}
	return all
}

// tree is the content of a directory: paths in the order of a walk, and what is
// there.
type tree []leaf

type leaf struct {
	path string
	mode os.FileMode
	data []byte // a file's content, or a link's target
}

func (t tree) String() string {
	var b bytes.Buffer
	for _, l := range t {
		fmt.Fprintf(&b, "  %v %s %.200q\n", l.mode, l.path, l.data)
	}
	return b.String()
}

// write creates the tree in dir.
func (t tree) write(dir string) error {
	for _, l := range t {
		path := filepath.Join(dir, l.path)
		var err error
		switch l.mode.Type() {
		case os.ModeDir:
			err = os.Mkdir(path, 0o700)
		case os.ModeSymlink:
			err = os.Symlink(string(l.data), path)
		default:
			err = os.WriteFile(path, l.data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	for i := len(t) - 1; i >= 0; i-- { // deepest first, since a directory's mode may forbid changes in it
		if t[i].mode.Type() == os.ModeSymlink {
			continue
		}
		if err := os.Chmod(filepath.Join(dir, t[i].path), t[i].mode.Perm()); err != nil {
			return err
		}
	}
	return nil
}
