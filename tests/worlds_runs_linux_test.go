package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWorldsRuns: what a program did in capd run is synced back, or kept where capd
// says. The exit code tells which.
func TestWorldsRuns(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	tests := []struct {
		name   string
		args   []string
		script string
		stop   func(r *usual) // when the script has said "ready"
		code   int
		says   string  // on standard error; " | " separates the parts
		served picture // in addition to before
		kept   picture // nil: nothing is kept
	}{
		{
			name: "moved, and linked", script: "mv src lib && ln lib/x lib/y",
			says: "synced 5 changes back", served: picture{"src": "", "src/x": "", "lib": "dir", "lib/x": "file:x", "lib/y": "file:x"},
		},
		{
			name: "linked, and edited", script: "cp -l a a.bak; echo more >>a",
			says: "synced 2 changes back", served: picture{"a": "file:onemore\n", "a.bak": "file:onemore\n"},
		},
		{
			name: "withheld in part", script: "printf key > .env; printf new > a; mv src .ssh; ln -s /etc/passwd out; ln -s a in",
			code: 1, says: "stays behind: .env: denied | stays behind: .ssh: denied | stays behind: out: | stays behind: src/x: | synced 2 changes back | 5 paths stayed behind",
			served: picture{"a": "file:new", "in": "link:a"},
			kept:   picture{".env": "file:key", ".ssh": "dir", ".ssh/x": "file:x", "out": "link:/etc/passwd"},
		},
		{
			name: "failed", script: "printf part > n; rm a; chmod 777 .; exit 3",
			code: 3, says: "2 changes, not synced back, since the program failed", kept: picture{"n": "file:part"},
		},
		{
			name: "failed, with --apply", args: []string{"--apply"}, script: "printf part > n; mkfifo ~/f; ln -s / out; exit 3",
			code: 3, says: "synced 1 change back", served: picture{"n": "file:part"}, kept: picture{"out": "link:/"},
		},
		{name: "dropped", args: []string{"--no-apply"}, script: "printf part > n", says: "1 change, not synced back"},
		{
			name: "too long", args: []string{"--time", "1s"}, script: "printf part > n; sleep 60",
			code: 1, says: "since the program was stopped | capd: limit: the run took longer than 1s", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "too long, with --apply", args: []string{"--time", "1s", "--apply"}, script: "printf part > n; sleep 60",
			code: 1, says: "synced 1 change back | capd: limit: the run took longer", served: picture{"n": "file:part"},
		},
		{
			name: "too long, and nothing done", args: []string{"--time", "500ms"}, script: "sleep 60",
			code: 1, says: "capd: limit: the run took longer",
		},
		{
			name: "too much memory", args: []string{"--memory", "64MiB"},
			script: `printf part > n; perl -e '$x = "x" x 300e6; sleep 60'`,
			code:   1, says: "capd: limit: the run used more than", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "too much disk, at the very end", args: []string{"--disk", "4MiB"}, script: "printf part > n; head -c 20000000 /dev/zero > /tmp/n",
			code: 1, says: "capd: limit: the run stored more than", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "interrupted", script: "printf part > n; echo ready; sleep 60", stop: (*usual).interrupt,
			code: 130, says: "since the program was stopped | capd: interrupted", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "interrupted by somebody in a hurry", script: "printf part > n; echo ready; sleep 60",
			stop: func(r *usual) {
				for !strings.Contains(r.errs.String(), "kept in") && r.cmd.Process.Signal(os.Interrupt) == nil {
					time.Sleep(time.Millisecond)
				}
			},
			code: 130, says: "the whole tree as it left it is kept in", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "ended by a service manager, with --apply", args: []string{"--apply"}, script: "printf part > n; echo ready; sleep 60",
			stop: func(r *usual) { ok(r, r.cmd.Process.Signal(syscall.SIGTERM)) },
			code: 130, says: "synced 1 change back", served: picture{"n": "file:part"},
		},
		{
			name: "not to be dropped when it is stopped", args: []string{"--no-apply"}, script: "printf part > n; echo ready; sleep 60", stop: (*usual).interrupt,
			code: 130, says: "capd: interrupted", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "nobody reads on", script: "printf part > n; echo ready; yes", stop: func(r *usual) { r.deaf <- true },
			code: 1, says: "nobody reads the program's output", kept: before.with(picture{"n": "file:part"}),
		},
		{
			name: "excluded", args: []string{"--exclude", "**/*.o", "--exclude", "src/", "--no-apply"}, script: "ls; printf o > n.o; mkdir src; printf s > src/s; printf n > n; ln -s / src/out",
			says: "1 change, not synced back",
		},
		{
			name: "excluded, and the rest synced", args: []string{"--exclude", "**/*.o", "--exclude", "src"}, script: "test ! -e src || exit 9; printf o > n.o; printf n > n",
			says: "synced 1 change back", served: picture{"n": "file:n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newUsual(t)
			s := r.run("served", test.stop, append(test.args, "--", "sh", "-c", test.script)...)
			if s.code != test.code {
				t.Errorf("capd run ended with %d, want %d: %v", s.code, test.code, s)
			}
			for words := range strings.SplitSeq(test.says, " | ") {
				if !strings.Contains(s.errs, words) {
					t.Errorf("capd run did not say %q: %q", words, s.errs)
				}
			}
			if d := before.with(test.served).differs(contents(t, r.path("served"))); d != "" {
				t.Errorf("what is served: %s; %v", d, s)
			}
			r.kept(s, test.kept)
		})
	}
}

// before is the tree of these programs.
var before = picture{"a": "file:one", "src": "dir", "src/x": "file:x"}

// usual is an estate in which programs are run.
type usual struct {
	*estate
	cmd   *exec.Cmd
	errs  *syncBuffer
	deaf  chan bool     // receives when the run's output is to be closed
	limit time.Duration // the time limit of a run
}

func newUsual(t testing.TB) *usual {
	t.Helper()
	r := usualIn(t, newPlaceInMemory(t).base)
	r.write("served/a", "one")
	r.write("served/src/x", "x")
	return r
}

func usualIn(t testing.TB, dir string) *usual {
	return &usual{estate: &estate{t, dir}, deaf: make(chan bool, 1), limit: 6 * patience}
}

func (r *usual) interrupt() {
	r.Helper()
	ok(r, r.cmd.Process.Signal(os.Interrupt))
}

// run runs capd run in the directory rel. It calls stop, if not nil, when the
// program says "ready".
func (r *usual) run(rel string, stop func(*usual), args ...string) said {
	r.Helper()
	var out, errs syncBuffer
	r.errs = &errs
	r.cmd = r.command(rel, append([]string{"run"}, args...)...)
	r.cmd.Stderr = &errs
	pipe, err := r.cmd.StdoutPipe()
	ok(r, err)
	ok(r, r.cmd.Start())
	go func() {
		b := make([]byte, 1<<10)
		for n, err := 0, error(nil); err == nil; n, err = pipe.Read(b) {
			out.Write(b[:n])
			select {
			case <-r.deaf:
				pipe.Close()
			default:
			}
		}
	}()
	if stop != nil {
		if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "ready") }) {
			r.Errorf("the program did not begin: %s", errs.String())
		}
		stop(r)
	}
	r.waitsFor(r.cmd, r.limit)
	code := r.cmd.ProcessState.ExitCode()
	if w := r.cmd.ProcessState.Sys().(syscall.WaitStatus); w.Signaled() {
		code = 128 + int(w.Signal()) // as a shell says it; an interrupt more may end capd when it has said everything
	} else if left := r.leftBehind(); len(left) > 0 {
		r.Errorf("capd run left behind: %q", left)
	}
	return said{code, out.String(), errs.String()}
}

// kept checks what is kept, that capd printed where, and that only this user can
// access it.
func (r *usual) kept(s said, want picture) {
	r.Helper()
	dirs, err := filepath.Glob(r.path("state/unsynced/*"))
	ok(r, err)
	if want == nil {
		if len(dirs) > 0 {
			r.Errorf("something is kept in %q: %v", dirs, s)
		}
		return
	}
	if len(dirs) != 1 || !strings.Contains(s.errs, "kept in "+dirs[0]) {
		r.Errorf("it is kept in %q: %v", dirs, s)
		return
	}
	if d := want.differs(contents(r, dirs[0])); d != "" {
		r.Errorf("what is kept: %s; %v", d, s)
	}
	for _, path := range []string{dirs[0], filepath.Dir(dirs[0])} {
		info, err := os.Stat(path)
		ok(r, err)
		if info.Mode().Perm() != 0o700 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			r.Errorf("%s is %v, of %d", path, info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		}
	}
}

// TestWorldsRunOfGuest: a program on a guest's tree syncs back what a guest may
// make. If the grant is revoked, what the program did is kept.
func TestWorldsRunOfGuest(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	r := newUsual(t)
	r.write("capd.yaml", "mounts:\n  - path: project\n    url: physical:served\nguests:\n  - name: guest\n")
	host := r.serve()
	other := newUsual(t)
	guest := func(stop func(*usual), script string) said {
		return other.run("served", stop, "--cap", host.locator, "--path", "project", "--", "sh", "-c", script)
	}
	s := guest(nil, "mv src lib; ln lib/x lib/y; ln -s a in; printf '#!' > bin; chmod +x bin; mkdir lib/.git; printf hook > lib/.git/config")
	if s.code != 1 {
		t.Errorf("it ended with %d: %v", s.code, s)
	}
	want := picture{"a": "file:one", "lib": "dir", "lib/x": "file:x", "lib/y": "file:x"}
	other.kept(s, picture{"bin": "exec:#!", "in": "link:a", "lib": "dir", "lib/.git": "dir", "lib/.git/config": "file:hook"})
	ok(t, os.RemoveAll(other.path("state/unsynced")))

	s = guest(func(*usual) { host.tells("revoke", "guest") }, "printf part > n; printf new > a; echo ready; sleep 60")
	if s.code != 1 || !strings.Contains(s.errs, "capd: revoked: ") || !strings.Contains(s.errs, "2 changes, not synced back") ||
		!strings.Contains(s.errs, "what it was may not be read any more") || strings.Contains(s.errs, "--apply") {
		t.Errorf("when it was revoked it ended with %d: %v", s.code, s)
	}
	other.kept(s, want.with(picture{"n": "file:part", "a": "file:new"}))
	host.end()
	if d := want.differs(contents(t, r.path("served"))); d != "" {
		t.Errorf("what is served then: %s", d)
	}
}

// TestWorldsRunTakesNoLocator: a locator in the environment is not used without
// being asked for.
func TestWorldsRunTakesNoLocator(t *testing.T) {
	needSandbox(t)
	r := newUsual(t)
	cmd := r.command("served", "run", "--", "sh", "-c", "cat a; printf new > a")
	cmd.Env = append(cmd.Env, "CAPD_CAP=capnp://nowhere")
	if s := r.ends(cmd); s.code != 0 || s.out != "one" || !strings.Contains(s.errs, `--cap "$CAPD_CAP"`) {
		t.Errorf("capd run: %v", s)
	}
	if d := before.with(picture{"a": "file:new"}).differs(contents(t, r.path("served"))); d != "" {
		t.Errorf("what is served: %s", d)
	}
}

// TestWorldsRunOutput: a run whose output cannot be written does not end
// successfully.
func TestWorldsRunOutput(t *testing.T) {
	needSandbox(t)
	r := newUsual(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	ok(t, err)
	defer full.Close()
	var errs syncBuffer
	cmd := r.command("served", "run", "--", "sh", "-c", "printf part > n; echo lost")
	cmd.Stdout, cmd.Stderr = full, &errs
	ok(t, cmd.Start())
	r.waits(cmd)
	s := said{code: cmd.ProcessState.ExitCode(), errs: errs.String()}
	if s.code != 1 || !strings.Contains(s.errs, "capd: the program's output cannot be written, so it was ended: no space left on device") {
		t.Errorf("capd run: %v", s)
	}
	r.kept(s, before.with(picture{"n": "file:part"}))
}

// TestWorldsRunCache: a cache of --cache lasts for its tree. Other trees, and a
// second run at the same time, do not get it.
func TestWorldsRunCache(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	r := newUsual(t)
	r.write("other/a", "one")
	r.write(".cache/mine", "the user's own")
	const script = "mkdir -p ~/.tool ${XDG_CACHE_HOME}/go-build; for d in ~/.tool ~/.cache ~/.cache/go-build; do printf 1 >> $d/n; done; cat ~/.tool/n $XDG_CACHE_HOME/n $GOCACHE/n; ls -A $XDG_CACHE_HOME"
	for _, run := range []struct {
		in    string
		cache []string
		want  string
	}{
		{"served", []string{r.path(".cache"), "~/.tool"}, "111"},
		{"served", []string{"~/.tool/", ".cache"}, "111111"},
		{"served", []string{"~/.cache/go-build"}, "111"}, // a different cache from all of ~/.cache
		{"served", nil, "111"},
		{"other", []string{r.path(".cache"), "~/.tool"}, "111"},
		{"served", []string{"/capd/cache", "/capd/home/.tool"}, "111111111"},
	} {
		var args []string
		for _, name := range run.cache {
			args = append(args, "--cache", name)
		}
		s := r.run(run.in, nil, append(args, "--", "sh", "-c", script)...)
		if s.code != 0 || s.out != run.want+"go-build\nn\n" {
			t.Errorf("in %s with %q: %v; want %s", run.in, run.cache, s, run.want)
		}
	}
	for _, want := range []string{"1", "11"} { // where it is for programs that ignore npm_config_cache
		if s := r.run("served", nil, "--cache", "~/.npm", "--", "sh", "-c", "printf 1 >> ~/.npm/n; cat $npm_config_cache/n"); s.code != 0 || s.out != want {
			t.Errorf("with ~/.npm: %v; want %s", s, want)
		}
	}
	second := usualIn(t, r.dir)
	s := r.run("served", func(*usual) {
		s := second.ends(second.command("served", "run", "--cache", ".cache", "--cache", ".tool", "--", "sh", "-c", script))
		if s.code != 0 || !strings.HasPrefix(s.out, "111go") || !strings.Contains(s.errs, "another run has the caches of this tree") {
			t.Errorf("the second of two runs: %v", s)
		}
		r.interrupt()
	}, "--cache", ".cache", "--cache", ".tool", "--", "sh", "-c", "echo ready; sleep 60")
	if s.code != 130 {
		t.Errorf("the first of two runs: %v", s)
	}
	for _, bad := range []string{"/etc", "..", "~", "~/..", r.dir, "", "."} {
		if s := r.run("served", nil, "--cache", bad, "--", "true"); s.code != 2 {
			t.Errorf("--cache %q: %v", bad, s)
		}
	}
	if got := contents(t, r.path(".cache")); len(got) != 1 {
		t.Errorf("the user's own cache has %v", got)
	}
}

// stopAfter returns a function that stops a run when cond holds of its tree on the
// host.
func (r *usual) stopAfter(cond func(tree string) bool) func(*usual) {
	return func(*usual) {
		r.Helper()
		if !waitFor(r.limit, func() bool {
			trees, _ := filepath.Glob(r.path("state/materialized/*/tree"))
			return len(trees) == 1 && cond(trees[0])
		}) {
			r.Error("it did not come so far")
		}
		r.interrupt()
	}
}
