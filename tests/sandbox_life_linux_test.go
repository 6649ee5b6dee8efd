package tests

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"capd/sandbox"
	"capd/vfs"
)

// here runs command in this process, with ctx, and returns its output.
func (c *cell) here(ctx context.Context, command sandbox.Command) (string, int, error) {
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	exit, err := sandbox.Run(ctx, command)
	return out.String(), exit, err
}

// script returns the command that runs a script.
func (c *cell) script(text string) sandbox.Command {
	command := c.command
	command.Args = []string{"sh", "-c", text}
	return command
}

// TestSandboxErrors: the error of a command that cannot run says why.
func TestSandboxErrors(t *testing.T) {
	needSandbox(t)
	c := newCell(t, os.Getuid())
	ok(t, os.Symlink("kept", c.path("tree/link")))
	tests := []struct {
		name   string
		change func(*sandbox.Command)
		code   vfs.Code
	}{
		{"no program", func(c *sandbox.Command) { c.Args = nil }, vfs.Invalid},
		{"unknown program", func(c *sandbox.Command) { c.Args = []string{"no-such-program"} }, vfs.NotFound},
		{"unknown path", func(c *sandbox.Command) { c.Args = []string{"./no-such-program"} }, vfs.NotFound},
		{"not executable", func(c *sandbox.Command) { c.Args = []string{"./file"} }, vfs.Denied},
		{"a directory", func(c *sandbox.Command) { c.Args = []string{"./kept"} }, vfs.IsDir},
		{"unknown directory", func(c *sandbox.Command) { c.Dir = "nowhere" }, vfs.NotFound},
		{"directory above", func(c *sandbox.Command) { c.Dir = "../.." }, vfs.Invalid},
		{"absolute directory", func(c *sandbox.Command) { c.Dir = "/etc" }, vfs.Invalid},
		{"relative tree", func(c *sandbox.Command) { c.Tree = "tree" }, vfs.Invalid},
		{"no tree", func(d *sandbox.Command) { d.Tree = c.path("nothing") }, vfs.NotFound},
		{"a file as tree", func(d *sandbox.Command) { d.Tree = c.path("tree/file") }, vfs.NotDir},
		{"a link as tree", func(d *sandbox.Command) { d.Tree = c.path("tree/link") }, vfs.NotDir},
		{"no scratch", func(d *sandbox.Command) { d.Scratch = c.path("nothing") }, vfs.NotFound},
		{"read-only above", func(c *sandbox.Command) { c.ReadOnly = []string{"../x"} }, vfs.Invalid},
		{"read-only nothing", func(c *sandbox.Command) { c.ReadOnly = []string{"kept/nothing"} }, vfs.NotFound},
		{"read-only link", func(c *sandbox.Command) { c.ReadOnly = []string{"link"} }, vfs.NotRegular},
		{"read-only through a link", func(c *sandbox.Command) { c.ReadOnly = []string{"link/deep"} }, vfs.Outside},
		{"read-only empty", func(c *sandbox.Command) { c.ReadOnly = []string{""} }, vfs.Invalid},
		{"bind everything", func(c *sandbox.Command) { c.Bind = []string{"/"} }, vfs.Invalid},
		{"bind the host's sockets", func(c *sandbox.Command) { c.Bind = []string{"/run/user"} }, vfs.Invalid},
		{"bind shadow", func(c *sandbox.Command) { c.Bind = []string{"/etc"} }, vfs.Invalid},
		{"bind /proc by a detour", func(c *sandbox.Command) { c.Bind = []string{"/usr/../proc/1"} }, vfs.Invalid},
		{"bind relative", func(c *sandbox.Command) { c.Bind = []string{"bound"} }, vfs.Invalid},
		{"bind nothing", func(d *sandbox.Command) { d.Bind = []string{c.path("nothing")} }, vfs.NotFound},
		{"bind a link to /proc", func(d *sandbox.Command) {
			ok(t, os.Symlink("/proc", c.path("proc")))
			d.Bind = []string{c.path("proc")}
		}, vfs.Invalid},
		{"bad variable", func(c *sandbox.Command) { c.Env = []string{"NOVALUE"} }, vfs.Invalid},
		{"NUL", func(c *sandbox.Command) { c.Args = append(c.Args, "a\x00b") }, vfs.Invalid},
		{"cache in the tree", func(d *sandbox.Command) {
			d.Caches = []sandbox.Cache{{At: sandbox.TreePath + "/x", Dir: c.path("cache")}}
		}, vfs.Invalid},
		{"cache for a home", func(d *sandbox.Command) { d.Caches = []sandbox.Cache{{At: sandbox.HomePath, Dir: c.path("cache")}} }, vfs.Invalid},
		{"cache above", func(d *sandbox.Command) {
			d.Caches = []sandbox.Cache{{At: sandbox.CachePath + "/../tree", Dir: c.path("cache")}}
		}, vfs.Invalid},
		{"cache in a cache", func(d *sandbox.Command) {
			d.Caches = []sandbox.Cache{{At: sandbox.CachePath, Dir: c.path("cache/1")}, {At: sandbox.CachePath + "/x", Dir: c.path("cache/2")}}
		}, vfs.Invalid},
		{"cache nowhere", func(d *sandbox.Command) {
			d.Caches = []sandbox.Cache{{At: sandbox.CachePath, Dir: c.path("nothing")}}
		}, vfs.NotFound},
		{"cache that is a link", func(d *sandbox.Command) {
			d.Caches = []sandbox.Cache{{At: sandbox.CachePath, Dir: c.path("tree/link")}}
		}, vfs.NotDir},
		{"negative limit", func(c *sandbox.Command) { c.Limits.Memory = -1 }, vfs.Invalid},
	}
	for _, test := range tests {
		command := c.script("echo ran")
		test.change(&command)
		out, exit, err := c.here(context.Background(), command)
		if vfs.CodeOf(err) != test.code || strings.Contains(out, "ran") {
			t.Errorf("%s: exit %d, %v, %q; want %s", test.name, exit, err, out, test.code)
		}
	}
	if left, _ := os.ReadDir(c.path("scratch")); len(left) > 0 {
		t.Errorf("%d things are left in the scratch directory", len(left))
	}
}

// TestSandboxLooksOnceMore: storage used between two looks counts, too, even if the
// program ends before the second.
func TestSandboxLooksOnceMore(t *testing.T) {
	needSandbox(t)
	c := newCell(t, os.Getuid())
	for script, code := range map[string]vfs.Code{
		"head -c 40000000 /dev/zero > big":                                    vfs.Limit,
		"head -c 40000000 /dev/zero > $HOME/big":                              vfs.Limit,
		"head -c 40000000 /dev/zero > $GOCACHE":                               vfs.Limit,
		"i=0; mkdir m; while test $i -lt 3000; do i=$((i+1)); : > m/$i; done": vfs.Limit,
		"head -c 4000000 /dev/zero > small":                                   "",
	} {
		command := c.script(script)
		command.Limits.Disk = 8 << 20
		command.Caches = []sandbox.Cache{{At: sandbox.CachePath, Dir: c.path("cache/1")}}
		if out, exit, err := c.here(context.Background(), command); exit > 0 || err == nil && code != "" || err != nil && vfs.CodeOf(err) != code {
			t.Errorf("%s: exit %d, %v, %q; want %q", script, exit, err, out, code)
		}
		ok(t, os.RemoveAll(c.path("tree/big")))
		ok(t, os.RemoveAll(c.path("tree/m")))
	}
}

// TestSandboxEnds: a run ends with its context, when nobody takes its output, and with
// the process that started it.
func TestSandboxEnds(t *testing.T) {
	needSandbox(t)
	endless := func(c *cell) sandbox.Command {
		return c.script(strings.ReplaceAll(`trap '' TERM HUP INT; setsid sh -c 'while :; do sleep SLEEP; done' & echo started; while :; do sleep SLEEP; done`, "SLEEP", c.sleeping))
	}
	t.Run("context", func(t *testing.T) {
		c := newCell(t, os.Getuid())
		ctx, cancel := context.WithCancelCause(context.Background())
		revoked := vfs.Errorf(vfs.Revoked, "taken back")
		r, w := io.Pipe()
		at := make(chan time.Time, 1)
		go func() {
			r.Read(make([]byte, 1))
			at <- time.Now()
			cancel(revoked)
			io.Copy(io.Discard, r)
		}()
		command := endless(c)
		command.Stdout = w
		if _, err := sandbox.Run(ctx, command); !errors.Is(err, revoked) {
			t.Errorf("it ended with %v", err)
		}
		w.Close()
		t.Logf("it was gone after %v", time.Since(<-at))
		if left := c.sleepers(); len(left) > 0 {
			t.Errorf("left running: %v", left)
		}
	})
	t.Run("before it starts", func(t *testing.T) {
		c := newCell(t, os.Getuid())
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if out, _, err := c.here(ctx, c.script("echo ran")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, %q", err, out)
		}
	})
	t.Run("input that blocks", func(t *testing.T) {
		c := newCell(t, os.Getuid())
		command := c.script("head -c 1")
		r, w := io.Pipe()
		defer r.Close()
		command.Stdin = r
		go w.Write([]byte("xyz"))
		if out, exit, err := c.here(context.Background(), command); err != nil || exit != 0 || out != "x" {
			t.Errorf("%d, %v, %q", exit, err, out)
		}
	})
	t.Run("output that nobody takes", func(t *testing.T) {
		c := newCell(t, os.Getuid())
		command := c.script("yes")
		r, w := io.Pipe()
		r.Close()
		command.Stdout = w
		if exit, err := sandbox.Run(context.Background(), command); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("exit code %d, %v; want the error of the closed pipe", exit, err)
		}
	})
	cells(t, func(c *cell) { // its process is killed
		cmd := c.process(endless(c))
		ok(c, cmd.Start())
		defer cmd.Wait()
		if !waitFor(3*patience, func() bool { return len(c.sleepers()) >= 2 }) {
			c.Error("it did not start")
		}
		ok(c, cmd.Process.Kill())
		if !waitFor(3*patience, func() bool { return len(c.sleepers()) == 0 }) {
			c.Errorf("left running: %v", c.sleepers())
		}
	})
}

// TestSandboxNetwork: the host's network can be used if asked for. Abstract sockets
// and files of others still cannot.
func TestSandboxNetwork(t *testing.T) {
	t.Parallel()
	cells(t, func(c *cell) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		ok(c, err)
		defer tcp.Close()
		abstract := "@capd-" + c.secret
		for _, name := range []string{abstract, c.path("socket")} {
			l, err := net.Listen("unix", name)
			ok(c, err)
			defer l.Close()
		}
		command := c.script(inside("network", tcp.Addr().String(), abstract, c.path("socket")))
		command.Network = true
		o := c.run(command, nil)
		if !strings.Contains(o.Out, "GOT tcp "+tcp.Addr().String()) {
			c.Errorf("the host's network is not there: %v", o)
		}
		confinement, err := sandbox.Inspect()
		ok(c, err)
		const scoped = 6 // the first ABI that knows abstract sockets
		if confinement.Landlock >= scoped && strings.Contains(o.Out, "GOT unix") {
			c.Errorf("a socket of the host was reached: %v", o)
		}
	})
}

// TestSandboxEscapesOutside: the attackers succeed without a sandbox. So their
// failure inside is the sandbox's doing.
func TestSandboxEscapesOutside(t *testing.T) {
	t.Parallel()
	c := newCell(t, os.Getuid())
	l, err := net.Listen("unix", c.path("socket"))
	ok(t, err)
	defer l.Close()
	for _, args := range [][]string{{"network", "127.0.0.1:1", "@none", c.path("socket")}, {"memory", "memfd"}, {"memory", "shm"}} {
		out, err := program("attacker", args...).Output()
		if err != nil || !strings.Contains(string(out), "GOT") {
			t.Errorf("%v got nothing: %v, %s", args, err, out)
		}
	}
}

// TestSandboxArguments: arguments arrive unchanged, text or not.
func TestSandboxArguments(t *testing.T) {
	needSandbox(t)
	c := newCell(t, os.Getuid())
	command := c.script(`printf '%s' "$@" "$V"`)
	odd := "\xff\x80 \n*'\"$\u202e"
	command.Args = append(command.Args, "sh", odd, "--", "")
	command.Env = []string{"V=" + odd}
	if out, _, err := c.here(context.Background(), command); err != nil || out != odd+"--"+odd {
		t.Errorf("%q, %v", out, err)
	}
}

// TestSandboxBuild builds a Go program from a bound module cache.
func TestSandboxBuild(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if !thorough {
		t.Skip("it compiles the runtime; with CAPD_CI=1 it is run")
	}
	c := newCell(t, os.Getuid())
	b, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	ok(t, err)
	root, cache, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	sum, err := os.ReadFile("../go.sum")
	ok(t, err)
	version, err := exec.Command("go", "list", "-m", "golang.org/x/sys").Output()
	ok(t, err)
	for name, text := range map[string]string{
		"go.mod":  "module m\n\ngo 1.26.0\n\nrequire " + string(version),
		"go.sum":  string(sum),
		"main.go": "package main\n\nimport \"golang.org/x/sys/unix\"\n\nfunc main() { println(unix.Getpid() > 0) }\n",
	} {
		ok(t, os.WriteFile(c.path("tree/"+name), []byte(text), 0o644))
	}
	command := c.script("go build -o program . && ./program")
	command.Bind = []string{root, cache}
	command.Env = []string{"PATH=" + root + "/bin:/usr/bin:/bin"}
	command.Limits.Time = 0 // it compiles the runtime
	if out, exit, err := c.here(context.Background(), command); exit != 0 || err != nil || strings.TrimSpace(out) != "true" {
		t.Errorf("%d, %v, %s", exit, err, out)
	}
}
