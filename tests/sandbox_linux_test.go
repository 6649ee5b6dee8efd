package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"capd/sandbox"
	"capd/vfs"
)

// Inside a sandbox this binary runs before the program, as capd does.
func init() {
	if sandbox.IsInit(os.Args) {
		sandbox.Init(os.Args)
	}
	others["sandboxed"] = sandboxed
}

// sandboxed runs a command in a sandbox, in a process of its own, as capd does.
func sandboxed(args []string) {
	var c sandbox.Command
	if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
		panic(err)
	}
	var out bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, &out, &out
	exit, err := sandbox.Run(context.Background(), c)
	o := outcome{Exit: exit, Out: out.String(), Code: vfs.CodeOf(err)}
	if err != nil {
		o.Err = err.Error()
	}
	json.NewEncoder(os.Stdout).Encode(o)
}

// outcome is the result of a sandboxed command.
type outcome struct {
	Exit     int
	Out, Err string
	Code     vfs.Code
}

func (o outcome) String() string {
	s := fmt.Sprintf("exit %d", o.Exit)
	if o.Err != "" {
		s = o.Err
	}
	return s + ": " + strings.Join(strings.Fields(o.Out), " ")
}

// needSandbox skips the test where sandboxes do not work, or fails it where they
// are required.
func needSandbox(t testing.TB) {
	t.Helper()
	err := sandbox.Available()
	if err == nil {
		return
	}
	if os.Getenv("CI") != "" || os.Getenv("CAPD_CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// cell is a directory on the host from which one user runs sandboxes.
type cell struct {
	testing.TB
	dir      string // readable by everybody; its content is the user's
	self     string // this binary, which everybody may start
	uid      int
	secret   string
	sleeping string          // for how many seconds processes sleep that must not be left; no other cell uses that number
	command  sandbox.Command // the defaults
}

// nobody is a user other than root, to test sandboxes of such users.
const nobody = 65534

// cells calls f with a cell of this process's user. As root it also calls f with
// a cell of nobody.
func cells(t *testing.T, f func(c *cell)) {
	needSandbox(t)
	confinement, err := sandbox.Inspect()
	ok(t, err)
	t.Log("confinement:", confinement)
	users := map[string]int{"me": os.Getuid()}
	if os.Getuid() == 0 {
		users = map[string]int{"root": 0, "nobody": nobody}
	}
	for name, uid := range users {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(newCell(t, uid)) })
	}
}

func newCell(t testing.TB, uid int) *cell {
	dir, err := os.MkdirTemp("", "cell")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(dir)) })
	c := &cell{TB: t, dir: dir, uid: uid, secret: fmt.Sprintf("secret%d", time.Now().UnixNano()),
		sleeping: fmt.Sprint(100_000 + 1000*os.Getpid() + int(cellsMade.Add(1)))}
	c.self = filepath.Join(dir, "self")
	copyProgram(t, c.self)
	for _, sub := range []string{"tree", "scratch", "cache/1", "cache/2", "outside", "bound", "home/.ssh", "tree/kept/deep"} {
		ok(t, os.MkdirAll(filepath.Join(dir, sub), 0o777))
	}
	for name, text := range map[string]string{
		"home/.ssh/id_ed25519": c.secret,
		"outside/file":         c.secret,
		"bound/file":           "bound",
		"tree/kept/deep/file":  "kept",
		"tree/file":            "file",
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	ok(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		ok(t, err)
		return os.Lchown(path, uid, -1)
	}))
	ok(t, os.Chmod(dir, 0o755))
	c.command = sandbox.Command{Tree: c.path("tree"), Scratch: c.path("scratch"), Bind: []string{c.path("bound")}, Limits: sandbox.Limits{Time: 3 * time.Minute}}
	return c
}

// copyProgram copies this binary to a place where everybody may start it. Another
// process writes the copy. If this one did, a child that it forks meanwhile would
// hold the copy open for writing until it execs, and starting the copy would fail
// with ETXTBSY.
func copyProgram(t testing.TB, to string) {
	t.Helper()
	self, err := os.Executable()
	ok(t, err)
	out, err := exec.Command("cp", self, to).CombinedOutput()
	if err != nil {
		t.Fatalf("cp: %v, %s", err, out)
	}
	ok(t, os.Chmod(to, 0o755))
}

func (c *cell) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cell) read(name string) string {
	b, err := os.ReadFile(c.path(name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// process returns the process that runs command. It has a secret in its
// environment, and an inheritable descriptor of a file that contains it.
func (c *cell) process(command sandbox.Command) *exec.Cmd {
	c.Helper()
	spec, err := json.Marshal(command)
	ok(c, err)
	cmd := exec.Command(c.self)
	cmd.Env = append(os.Environ(), otherVar+"=sandboxed\n"+string(spec), "CAPD_SECRET="+c.secret, "HOME="+c.path("home"))
	leak, err := os.Open(c.path("outside/file"))
	ok(c, err)
	c.Cleanup(func() { leak.Close() })
	for range 9 {
		cmd.ExtraFiles = append(cmd.ExtraFiles, leak)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if c.uid != os.Getuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}
	}
	cmd.Stderr = os.Stderr
	return cmd
}

// run runs command and returns its outcome.
func (c *cell) run(command sandbox.Command, stdin io.Reader) outcome {
	c.Helper()
	cmd := c.process(command)
	cmd.Stdin = stdin
	b, err := cmd.Output()
	ok(c, err)
	var o outcome
	ok(c, json.Unmarshal(b, &o))
	if left, _ := os.ReadDir(c.path("scratch")); len(left) > 0 {
		c.Errorf("%d things are left in the scratch directory, %s first", len(left), left[0].Name())
	}
	return o
}

// sh runs a script.
func (c *cell) sh(script string) outcome {
	c.Helper()
	command := c.command
	command.Args = []string{"sh", "-c", script}
	return c.run(command, nil)
}

// TestSandboxUse: what a build needs works.
func TestSandboxUse(t *testing.T) {
	t.Parallel()
	cells(t, func(c *cell) {
		tests := []struct {
			name   string
			change func(*sandbox.Command)
			script string
			stdin  string
			exit   int
			out    string
		}{
			{name: "pipeline", script: "seq 100 | grep 7 | wc -l", out: "19"},
			{name: "exit code", script: "exit 42", exit: 42},
			{name: "signal", script: "kill -TERM $$", exit: 128 + 15},
			{name: "stdin", script: "tr a-z A-Z", stdin: "hello", out: "HELLO"},
			{name: "stderr", script: "echo words > /dev/stderr; echo more > /dev/null", out: "words"},
			{name: "bytes", script: "head -c 1000000 /dev/zero | wc -c", out: "1000000"},
			{name: "environment", change: func(c *sandbox.Command) { c.Env = []string{"A=b c", "TERM=dumb"} }, script: `echo $A $TERM $HOME $TMPDIR`, out: "b c dumb /capd/home /tmp"},
			{name: "a tree that is shut", script: "chmod 0 . && sleep 0.6; chmod 755 /capd/tree; echo ok", out: "ok"},
			{name: "directory", change: func(c *sandbox.Command) { c.Dir = "kept/deep" }, script: "pwd; cat file", out: "/capd/tree/kept/deep\nkept"},
			{name: "who", script: "id -un; hostname; cd ~ && pwd", out: "sandbox\nsandbox\n/capd/home"},
			{name: "rename across directories", script: "mkdir a b; echo x > a/f; mv a/f b/g; mv b a/; cat a/b/g; rm -r a", out: "x"},
			{name: "links in the tree", script: "mkdir .bin; ln -s ../file .bin/l; cat .bin/l; ln file h; cat h; rm -r .bin h", out: "filefile"},
			{name: "temporary", script: `f=$(mktemp) && mkfifo /tmp/p && rm /tmp/p && echo ok > $f && cat $f; touch ~/x ~/.cache/x; ls -A ~; ls /capd/cache`, out: "ok\n.cache\nx\nx"},
			{name: "bound", script: "cat " + c.path("bound/file"), out: "bound"},
			{name: "loopback", script: "getent hosts localhost; cat /proc/net/dev | grep -c :", out: "::1             localhost\n1"},
			{name: "large files are 1 MiB", change: func(c *sandbox.Command) { c.Limits.FileSize = 1 << 20 }, script: "head -c 1048576 /dev/zero > f && echo ok; rm f", out: "ok"},
			{name: "process substitution", script: "bash -c 'cat <(echo inner)'", out: "inner"},
			{name: "shared memory", script: "echo x > /dev/shm/s && cat /dev/shm/s", out: "x"},
			{name: "terminal", script: "script -qec 'test -t 0 && echo tty' /dev/null | tr -d '\\r'", out: "tty"},
			{name: "node", script: `command -v node > /dev/null || { echo 3; exit; }; node -e 'console.log(require("child_process").execSync("expr 1 + 2").toString().trim())'`, out: "3"},
			{name: "c", script: `command -v cc > /dev/null || { echo ok; exit; }; printf '#include <stdio.h>\nint main(){puts("ok");}' > /tmp/m.c && cc -o /tmp/m /tmp/m.c && /tmp/m`, out: "ok"},
		}
		for _, test := range tests {
			command := c.command
			command.Args = []string{"sh", "-c", test.script}
			if test.change != nil {
				test.change(&command)
			}
			o := c.run(command, strings.NewReader(test.stdin))
			if o.Exit != test.exit || o.Err != "" || strings.TrimSpace(o.Out) != test.out {
				c.Errorf("%s: exit %d, %s, %q; want exit %d, %q", test.name, o.Exit, o.Err, o.Out, test.exit, test.out)
			}
		}
		caches := []sandbox.Cache{{At: sandbox.CachePath, Dir: c.path("cache/1")}, {At: sandbox.HomePath + "/.tool/store", Dir: c.path("cache/2")}}
		for i, want := range []string{"1 1", "11 11"} { // what is in them lasts, and nothing else of the home does
			command := c.command
			command.Caches = caches
			command.Args = []string{"sh", "-c", `test ! -e ~/other && touch ~/other
				for f in $GOCACHE/n ~/.tool/store/n; do mkdir -p $(dirname $f); printf 1 >> $f; done; echo $(cat $GOCACHE/n) $(cat ~/.tool/store/n)`}
			if o := c.run(command, nil); o.Exit != 0 || o.Err != "" || strings.TrimSpace(o.Out) != want {
				c.Errorf("with caches, run %d: %v; want %q", i+1, o, want)
			}
		}
		if o := c.sh("ls -A ~ /capd/cache"); strings.Contains(o.Out, "n") && strings.Contains(o.Out, "go-build") {
			c.Errorf("a run without caches sees them: %v", o)
		}
		if o := c.sh("echo new > made"); c.read("tree/made") != "new\n" {
			c.Errorf("the host reads %q after %v", c.read("tree/made"), o)
		}
	})
}
