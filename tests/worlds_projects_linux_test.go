package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// project is a typical directory, and what people run in it.
type project struct {
	name   string
	needs  string // a program that it needs; without it the project is skipped, except in CI
	heavy  bool   // it runs only with CAPD_CI
	files  map[string]string
	args   func(t *testing.T) []string // of capd run
	script string                      // at the latest, it is stopped while it sleeps
	code   int

	// made is what a complete run leaves in the directory, by path: "file", "dir", or "link:" and a
	// target. same are paths with equal contents.
	made  map[string]string
	same  []string
	left  []string // what is not synced back
	after string   // a script that must succeed in the directory, on the host

	// midst reports that a run is in its middle. What the tree has then must be kept.
	midst func(tree string) bool
	kept  []string
}

// has returns a function that reports whether something in the tree matches one of the patterns.
func has(patterns ...string) func(tree string) bool {
	return func(tree string) bool {
		for _, p := range patterns {
			if found, _ := filepath.Glob(filepath.Join(tree, p)); len(found) > 0 {
				return true
			}
		}
		return false
	}
}

var projects = []project{
	{
		name: "npm workspaces", needs: "npm",
		files: map[string]string{
			"package.json":            `{"name":"root","version":"1.0.0","workspaces":["packages/*"],"dependencies":{"plain":"file:plain"}}`,
			"packages/a/package.json": `{"name":"a","version":"1.0.0","dependencies":{"b":"1.0.0"}}`,
			"packages/a/index.js":     `console.log(require("b") + require("plain"))`,
			"packages/b/package.json": `{"name":"b","version":"1.0.0","main":"b.js","bin":{"tool":"cli.js"}}`,
			"packages/b/b.js":         `module.exports = "from b "`,
			"packages/b/cli.js":       "#!/usr/bin/env node\nconsole.log('the tool')\n",
			"plain/package.json":      `{"name":"plain","version":"1.0.0","main":"p.js"}`,
			"plain/p.js":              `module.exports = "and plain"`,
		},
		script: "npm install --offline --no-audit --no-fund --loglevel=error >/dev/null && sleep ${SLEEP:-0} && node packages/a && node_modules/.bin/tool",
		made: map[string]string{
			"node_modules/a": "link:../packages/a", "node_modules/b": "link:../packages/b", "node_modules/plain": "link:../plain",
			"node_modules/.bin/tool": "link:../b/cli.js", "package-lock.json": "file",
		},
		after: "node packages/a && node_modules/.bin/tool",
		midst: has("node_modules"), kept: []string{"node_modules"},
	},
	{
		name: "a virtualenv", needs: "/usr/bin/python3",
		files:  map[string]string{"main.py": "import sys\nprint('in', sys.prefix)\n"},
		script: "python3 -m venv --without-pip .venv && sleep ${SLEEP:-0} && .venv/bin/python main.py && echo made > .venv/marker",
		code:   1,
		made:   map[string]string{".venv/pyvenv.cfg": "file", ".venv/lib64": "link:lib", ".venv/bin/python": "link:python3", ".venv/marker": "file"},
		left:   []string{".venv/bin/python3"}, // it leads to /usr/bin
		after:  "ln -s /usr/bin/python3 .venv/bin/python3 && test $(.venv/bin/python -c 'import sys; print(sys.prefix)') = $PWD/.venv",
		midst:  has(".venv/pyvenv.cfg", ".venv/bin", ".venv/lib"), kept: []string{".venv"},
	},
	{
		name: "a tree of hard links", needs: "ln",
		files: map[string]string{"src/main.rs": "fn main() {}", "target/debug/deps/app-0": "old", "target/debug/app": "old"},
		// As in cargo: an output gets a name with a digest, and a hard link where it is looked for.
		script: `cd target/debug; mkdir -p incremental build/out
			for i in 1 2 3 4 5 6 7 8 9; do echo "object $i" > deps/lib$i-ff.rlib; ln deps/lib$i-ff.rlib lib$i.rlib; ln deps/lib$i-ff.rlib incremental/$i; done
			rm deps/app-0; echo app > deps/app-1; chmod +x deps/app-1; ln -f deps/app-1 app; mv incremental/9 build/out/lib9
			touch ready; sleep ${SLEEP:-0}; rm ready`,
		made: map[string]string{
			"target/debug/deps/app-1": "file", "target/debug/app": "file", "target/debug/lib9.rlib": "file", "target/debug/deps/lib9-ff.rlib": "file",
			"target/debug/build/out/lib9": "file", "target/debug/incremental/8": "file", "target/debug/deps/app-0": "", "target/debug/incremental/9": "",
		},
		same:  []string{"target/debug/lib9.rlib", "target/debug/deps/lib9-ff.rlib", "target/debug/build/out/lib9"},
		after: "test -x target/debug/app && test -x target/debug/deps/app-1 && cmp target/debug/app target/debug/deps/app-1",
		midst: has("target/debug/ready"), kept: []string{"target/debug/app", "target/debug/lib1.rlib", "target/debug/incremental/1"},
	},
	{
		name: "go build", needs: "go", heavy: true,
		args: func(t *testing.T) []string {
			b, err := exec.Command("go", "env", "-json", "GOROOT", "GOMODCACHE").Output()
			ok(t, err)
			var of struct{ GOROOT, GOMODCACHE string }
			ok(t, json.Unmarshal(b, &of))
			return []string{"--cache", "~/.cache", "--bind", of.GOMODCACHE, "--bind", of.GOROOT, "--env", "PATH=" + of.GOROOT + "/bin:/usr/bin:/bin", "--env", "GOFLAGS=-p=2"}
		},
		script: "mkdir bin && echo begun > bin/log && go build ./... && sleep ${SLEEP:-0} && go build -o bin/ ./cmd/capd && bin/capd version >> bin/log",
		made:   map[string]string{"bin/capd": "file", "bin/log": "file"},
		after:  "bin/capd version | grep -q capd",
		midst: func(tree string) bool { // a part of it is compiled
			compiled, _ := filepath.Glob(filepath.Join(tree, "../../../caches/*/*/go-build/??/*-d"))
			return len(compiled) > 100
		},
		kept: []string{"bin/log"},
	},
}

// TestWorldsProjects runs typical programs, once to the end and once until they are stopped in the
// middle. What was synced back is whole, and the rest is kept.
func TestWorldsProjects(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	for _, p := range projects {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			if p.heavy && !thorough {
				t.Skip("it takes minutes; with CAPD_CI=1 it is run")
			}
			if _, err := exec.LookPath(p.needs); err != nil {
				if thorough {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			p.test(t)
		})
	}
}

func (p project) test(t *testing.T) {
	r := usualIn(t, newPlace(t).base)
	if p.heavy {
		r.limit = 10 * time.Minute
	}
	p.fill(r)
	unbuilt := contents(t, r.path("served"))
	var args []string
	if p.args != nil {
		args = p.args(t)
	}

	s := r.run("served", r.stopAfter(p.midst), append(args, "--env", "SLEEP=60", "--", "sh", "-c", "echo ready; "+p.script)...)
	if s.code != 130 {
		t.Errorf("stopped it ended with %d: %v", s.code, s)
	}
	if d := unbuilt.differs(contents(t, r.path("served"))); d != "" {
		t.Errorf("when it was stopped, what is served: %.2000s", d)
	}
	dirs, _ := filepath.Glob(r.path("state/unsynced/*"))
	if len(dirs) != 1 || !strings.Contains(s.errs, dirs[0]) {
		t.Fatalf("it is kept in %q: %v", dirs, s)
	}
	for _, path := range p.kept {
		if _, err := os.Lstat(filepath.Join(dirs[0], path)); err != nil {
			t.Errorf("it is not kept: %v", err)
		}
	}
	t.Logf("stopped in its middle: exit code %d, nothing came back; %s", s.code, ends(s))
	ok(t, os.RemoveAll(r.path("state/unsynced")))

	s = r.run("served", nil, append(args, "--", "sh", "-c", p.script)...)
	t.Logf("run to its end: exit code %d; %s", s.code, ends(s))
	if s.code != p.code {
		t.Errorf("it ended with %d, want %d: %v", s.code, p.code, s)
	}
	now := contents(t, r.path("served"))
	for path, want := range p.made {
		if is := now[path]; is != want && (want != "file" || !strings.HasPrefix(is, "file:") && !strings.HasPrefix(is, "exec:")) {
			t.Errorf("%s is %.100q, want %q", path, is, want)
		}
	}
	for _, path := range p.same {
		if now[path] != now[p.same[0]] {
			t.Errorf("%s holds %.100q and %s %.100q", p.same[0], now[p.same[0]], path, now[path])
		}
	}
	for _, path := range p.left {
		if !strings.Contains(s.errs, "stays behind: "+path+": ") {
			t.Errorf("it does not say that %s stays behind: %v", path, s)
		}
		if kept, _ := filepath.Glob(r.path("state/unsynced/*/" + path)); len(kept) != 1 {
			t.Errorf("%s is not kept", path)
		}
	}
	cmd := exec.Command("sh", "-ec", p.after)
	cmd.Dir = r.path("served")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("what came back does not work: %v, %s", err, out)
	}
}

// fill makes the project's files. By default they are this module's own.
func (p project) fill(r *usual) {
	r.Helper()
	if p.files == nil {
		files, err := exec.Command("git", "-C", "..", "ls-files", "-z").Output()
		ok(r, err)
		for path := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
			b, err := os.ReadFile("../" + path)
			ok(r, err)
			r.write("served/"+path, string(b))
		}
	}
	for path, text := range p.files {
		r.write("served/"+path, text)
		if strings.HasPrefix(text, "#!") {
			ok(r, os.Chmod(r.path("served/"+path), 0o755))
		}
	}
}

// ends returns the lines that capd itself printed.
func ends(s said) string {
	var own []string
	for line := range strings.Lines(s.errs) {
		if strings.HasPrefix(line, "capd: ") {
			own = append(own, strings.TrimSpace(strings.TrimPrefix(line, "capd: ")))
		}
	}
	return strings.Join(own, "; ")
}
