package tests

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"capd/client/console"
	"capd/operator"
	"capd/vfs"
)

var syncing = killing{
	name: "sync",
	sign: intents,
	prepare: func(k *killed) {
		needSandbox(k.TB)
		k.fill("lower")
		k.fill("model")
		sh := exec.Command("sh", "-ec", editing)
		sh.Dir = k.path("model")
		out, err := sh.CombinedOutput()
		if err != nil {
			k.Fatalf("%v: %s", err, out)
		}
		k.modelled()
	},
	begin: func(r *round) (func() error, func()) {
		r.Helper()
		cmd := r.command("lower", "run", "--", "sh", "-ec", editing)
		ok(r.TB, cmd.Start())
		return cmd.Wait, func() { cmd.Process.Kill() }
	},
	anew: runAnew,
	after: func(r *round) (done bool) {
		r.Helper()
		s := r.ends(runAnew(r))
		if s.code != 0 {
			r.Fatalf("capd run afterwards: %v", s)
		}
		r.heard(s.errs)
		done = r.whole(contents(r.TB, r.path("lower")), r.before, r.model)
		r.clean()
		r.endOrphans()
		return done
	},
}

// endOrphans ends processes that bubblewrap leaves when it is killed after it has
// made a process and before it has told it to go on. Such a process runs nothing
// and waits for ever.
func (r *round) endOrphans() {
	r.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		b, _ := os.ReadFile(path)
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil || !strings.Contains(string(b), r.state()+"/") {
			continue
		}
		if name, _, _ := strings.Cut(string(b), "\x00"); filepath.Base(name) != "bwrap" {
			r.Errorf("a process is left: %q", b)
		}
		r.Logf("bubblewrap left a process that waits, %d", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func runAnew(r *round) *exec.Cmd { return r.command("lower", "run", "--", "true") }

var moving = killing{
	name: "move",
	sign: "to/moved/*",
	prepare: func(k *killed) {
		k.fill("from/dir")
		ok(k.TB, os.Mkdir(k.path("to"), 0o755))
		k.write("capd.yaml", `
mounts:
  - path: from
    url: physical:from
  - path: to
    url: physical:to
guests:
  - name: guest
`)
		k.before = contents(k.TB, k.path("from/dir"))
	},
	begin: func(r *round) (func() error, func()) {
		r.Helper()
		host := r.serve()
		top := host.guest()
		ok(r.TB, top.Cap().Settle(context.Background()))
		return func() error {
			return top.Move(context.Background(), "from/dir", top, "to/moved", vfs.If{}, vfs.If{})
		}, host.kill
	},
	// A killed move between stores may leave both files. It never leaves neither,
	// or a part of one.
	after: func(r *round) (done bool) {
		r.Helper()
		host := r.again()
		here, there := r.contentsOf("from/dir"), r.contentsOf("to/moved")
		for path, what := range r.before {
			if here[path] == "" && there[path] == "" {
				worldsSeen.count(&worldsSeen.lost, 1)
				r.Errorf("%s is in neither place", path)
			}
			for _, is := range []string{here[path], there[path]} {
				if is != "" && is != what {
					r.torn("%s is %s, and was %s", path, is, what)
				}
			}
		}
		for _, now := range []picture{here, there} {
			for path := range now {
				if r.before[path] == "" {
					r.torn("%s was made up", path)
				}
			}
		}
		host.end()
		r.clean()
		return len(here) == 0
	},
}

// contentsOf is contents, which are empty if rel does not exist.
func (r *round) contentsOf(rel string) picture {
	r.Helper()
	if _, err := os.Lstat(r.path(rel)); errors.Is(err, fs.ErrNotExist) {
		return picture{}
	}
	return contents(r.TB, r.path(rel))
}

var snapshotting = killing{
	name: "snapshot",
	sign: "state/cas/tmp/*/*",
	prepare: func(k *killed) {
		k.serving()
		host := k.serve()
		k.digest = strings.TrimSpace(k.tells("snapshot", "project"))
		host.end()
		ok(k.TB, os.RemoveAll(k.state()))
	},
	begin: func(r *round) (func() error, func()) {
		host := r.serve()
		return r.cli("snapshot", "project"), host.kill
	},
	after: func(r *round) (done bool) {
		r.Helper()
		host := r.again()
		done = strings.Contains(r.tells("snapshots"), r.digest)
		if got := strings.TrimSpace(r.tells("snapshot", "project")); got != r.digest {
			r.torn("the same tree has the digest %s, and had %s", got, r.digest)
		}
		r.tells("mount", "stored", "cas:#"+r.digest)
		if d := r.before.differs(shown(r.TB, host.guest().SubDir("stored"))); d != "" {
			r.torn("the snapshot has something else: %.1000s", d)
		}
		r.tells("snapshots", "--collect")
		r.verifies()
		host.end()
		r.clean()
		return done
	},
}

// serving makes an estate with one served directory.
func (k *killed) serving() {
	k.Helper()
	k.fill("lower")
	k.write("capd.yaml", "mounts:\n  - path: project\n    url: physical:lower\nguests:\n  - name: guest\n")
	k.before = contents(k.TB, k.path("lower"))
}

// verifies checks every content in the host's store against its digest.
func (r *round) verifies() {
	r.Helper()
	blobs := r.path("state/cas/blobs")
	n := 0
	ok(r.TB, filepath.WalkDir(blobs, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		n++
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != filepath.Base(filepath.Dir(path))+filepath.Base(path) {
			r.torn("a content is not what its name says: %s", path)
		}
		return err
	}))
	if n < 100 {
		r.Errorf("vacuous: the store has %d contents", n)
	}
}

// Materialized trees are removed in either case.
var materializing = killing{
	name: "materialize",
	sign: "state/materialized/*/tree/*",
	prepare: func(k *killed) {
		k.serving()
		host := k.serve()
		m, err := k.virtualFs().Materialize(context.Background(), "project", operator.Bounds{}, nil)
		ok(k.TB, err)
		if d := k.before.differs(contents(k.TB, m.Path())); d != "" {
			k.Errorf("what is materialized is something else: %.1000s", d)
		}
		ok(k.TB, m.Close())
		if !waitFor(patience, func() bool { return len(k.materialized()) == 0 }) {
			k.Errorf("left behind when it was released: %q", k.materialized())
		}
		host.end()
	},
	begin: func(r *round) (func() error, func()) {
		r.Helper()
		host := r.serve()
		tree := r.virtualFs()
		return func() error { // the directory stays open until the host is killed
			_, err := tree.Materialize(context.Background(), "project", operator.Bounds{}, nil)
			return err
		}, host.kill
	},
	after: func(r *round) (done bool) {
		r.Helper()
		host := r.again()
		if left := r.materialized(); len(left) > 0 {
			worldsSeen.count(&worldsSeen.left, len(left))
			r.Errorf("left behind: %q", left)
		}
		host.end()
		r.clean()
		return r.answered
	},
}

// materialized returns what is in the directory for materialized trees.
func (w *estate) materialized() []string {
	found, _ := filepath.Glob(w.path("state/materialized/*"))
	return found
}

// virtualFs connects, as the operator, to the running host.
func (w *estate) virtualFs() *console.VirtualFs {
	w.Helper()
	con, err := console.Dial(context.Background(), filepath.Join(w.state(), "control.sock"))
	ok(w, err)
	w.Cleanup(func() { con.Close() })
	fs, err := con.VirtualFs(context.Background())
	ok(w, err)
	return fs
}
