package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"capd/client"
)

// worldsSeen counts for TestWorldsCases and TestWorldsKilled.
var worldsSeen worldsTally

type worldsTally struct {
	mu                    sync.Mutex
	cases, held           int // of sync back
	works, kills, settled int
	torn, lost, left      int
}

func (c *worldsTally) count(n *int, by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n += by
}

// report prints the counts so far.
func (c *worldsTally) report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	if c.cases > 0 {
		parts = append(parts, fmt.Sprintf("cases 50 to 58: %d of %d", c.held, c.cases))
	}
	if c.kills > 0 {
		parts = append(parts, fmt.Sprintf("killed %d times in %d kinds of work, %d batches settled afterwards: %d torn, %d lost, %d left behind",
			c.kills, c.works, c.settled, c.torn, c.lost, c.left))
	}
	fmt.Println("worlds:", strings.Join(parts, "; "))
}

// estate is a directory with everything that a host has: what it serves, its
// configuration and its state. Paths in the configuration are relative, so a
// copy of an estate is independent of it.
type estate struct {
	testing.TB
	dir string
}

func (w *estate) path(rel string) string { return filepath.Join(w.dir, rel) }

func (w *estate) state() string { return w.path("state") }

func (w *estate) write(rel, data string) {
	w.Helper()
	ok(w, os.MkdirAll(filepath.Dir(w.path(rel)), 0o755))
	ok(w, os.WriteFile(w.path(rel), []byte(data), 0o644))
}

// copy copies w to dir.
func (w *estate) copy(t testing.TB, dir string) *estate {
	t.Helper()
	ok(t, os.CopyFS(dir, os.DirFS(w.dir)))
	kept, err := filepath.Glob(filepath.Join(dir, "state", "*.*"))
	ok(t, err)
	for _, file := range kept {
		ok(t, os.Chmod(file, 0o600)) // CopyFS lets others read
	}
	return &estate{t, dir}
}

// command returns a capd command that runs in the directory rel, with the
// estate's state.
func (w *estate) command(rel string, args ...string) *exec.Cmd {
	w.Helper()
	cmd := exec.Command(capd(w), slices.Insert(slices.Clone(args), 1, "--state", w.state())...)
	cmd.Dir = w.path(rel)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "CAPD_CAP=", "HOME="+w.dir, endsAtOnce)
	return cmd
}

// said is the result of a run of capd.
type said struct {
	code      int
	out, errs string
}

func (s said) String() string { return fmt.Sprintf("[%d] %s%s", s.code, head(s.out), head(s.errs)) }

// ends runs cmd, and fails the test if it takes too long.
func (w *estate) ends(cmd *exec.Cmd) said {
	w.Helper()
	var out, errs syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	ok(w, cmd.Start())
	w.waits(cmd)
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// waits waits for a process that was started, and fails the test if it takes
// too long.
func (w *estate) waits(cmd *exec.Cmd) {
	w.Helper()
	w.waitsFor(cmd, 6*patience)
}

func (w *estate) waitsFor(cmd *exec.Cmd, limit time.Duration) {
	w.Helper()
	killer := time.AfterFunc(limit, func() { cmd.Process.Kill() })
	defer killer.Stop()
	_ = cmd.Wait()
	if !killer.Stop() {
		w.Fatalf("capd %q hangs", cmd.Args[1:])
	}
}

// tells runs capd, which must succeed, and returns its output.
func (w *estate) tells(args ...string) string {
	w.Helper()
	s := w.ends(w.command("", args...))
	if s.code != 0 {
		w.Fatalf("capd %q: %v", args, s)
	}
	return s.out
}

// running is a capd serve that tests may kill.
type running struct {
	*estate
	cmd     *exec.Cmd
	locator string
	log     *syncBuffer
}

// serve starts a host with the estate's configuration, capd.yaml.
func (w *estate) serve() *running {
	w.Helper()
	var out syncBuffer
	r := &running{estate: w, cmd: w.command("", "serve", "--config", "capd.yaml"), log: &syncBuffer{}}
	r.cmd.Stdout, r.cmd.Stderr = &out, r.log
	ok(w, r.cmd.Start())
	w.Cleanup(r.kill)
	if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "Ctrl-C") }) {
		w.Fatalf("capd serve printed %s%s", out.String(), r.log)
	}
	if r.locator = locatorText.FindString(out.String()); r.locator == "" { // an earlier start has printed it
		r.locator = strings.TrimSpace(w.tells("grant", "again"))
	}
	return r
}

// kill kills the host with kill -9, unless it is gone.
func (r *running) kill() {
	if r.cmd.ProcessState == nil {
		r.cmd.Process.Kill()
		r.cmd.Wait()
	}
}

// end ends the host as a service manager does.
func (r *running) end() {
	r.Helper()
	ok(r, r.cmd.Process.Signal(syscall.SIGTERM))
	r.waits(r.cmd)
	if r.cmd.ProcessState.ExitCode() != 0 {
		r.Errorf("capd serve ended with %v: %s", r.cmd.ProcessState, r.log)
	}
}

// guest connects a guest of the host.
func (r *running) guest() *client.Dir {
	r.Helper()
	return dial(r, r.locator).Dir(context.Background())
}

// unsettled matches the log of a host that could not settle everything left to
// it.
var unsettled = regexp.MustCompile(`but not at|could not be settled|internal|panic|DATA RACE|goroutine `)

// settled returns how many batches of a dead process the log mentions.
func settled(log string) int { return strings.Count(log, "which died had begun were") }
