package tests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"capd/client"
	"capd/client/console"
	"capd/locator"
	"capd/operator"
	"capd/tests/scratch"
	"capd/vfs"
)

// place is a scratch directory. Its directory served is served. Beside it, guests must not reach
// outside.
type place struct {
	testing.TB
	base    string
	served  string
	outside string
	state   string
}

func newPlace(t testing.TB) *place {
	t.Helper()
	return newPlaceIn(t, "")
}

// newPlaceInMemory makes a place in memory, so that races do not depend on a disk.
func newPlaceInMemory(t testing.TB) *place {
	t.Helper()
	return newPlaceIn(t, scratch.Memory())
}

func newPlaceIn(t testing.TB, dir string) *place {
	t.Helper()
	base, err := os.MkdirTemp(dir, "capd") // a test's own directory may be too long for a socket's name
	ok(t, err)
	base, err = filepath.EvalSymlinks(base)
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	p := &place{t, base, filepath.Join(base, "served"), filepath.Join(base, "outside"), filepath.Join(base, "state")}
	ok(t, os.Mkdir(p.served, 0o755))
	p.canary(p.outside)
	return p
}

// hostProcess is the real capd, serving a place.
type hostProcess struct {
	*place
	cmd     *exec.Cmd
	locator string // the first guest's
	log     *syncBuffer
	told    bool // it was asked to end

	greeting []string // what it printed at its start, by lines

	attackers sync.Once
	linking   string // a grant of everything, with the right to make links
}

// attacker returns the locator of a guest that may do all that a guest may.
func (h *hostProcess) attacker() string {
	h.attackers.Do(func() { h.linking, _, _ = h.grant("attacker", "") })
	return h.linking
}

// serve starts capd on a new place. At the end of the test it is asked to end, and must leave
// nothing behind.
func serve(t testing.TB, args ...string) *hostProcess {
	t.Helper()
	return serveAt(newPlace(t), exec.Command(capd(t), args...))
}

// serveAt starts cmd, which is capd with flags, on p.
func serveAt(p *place, cmd *exec.Cmd) *hostProcess {
	p.Helper()
	cmd.Args = append([]string{cmd.Args[0], "serve", p.served, "--state", p.state}, cmd.Args[1:]...)
	return served(p, cmd)
}

// serveConfigured starts capd on a new place with a configuration, in which SERVED stands for its directory.
func serveConfigured(t testing.TB, config string) *hostProcess {
	t.Helper()
	p := newPlace(t)
	file := filepath.Join(p.base, "capd.yaml")
	ok(t, os.WriteFile(file, []byte(strings.ReplaceAll(config, "SERVED", p.served)), 0o600))
	return served(p, exec.Command(capd(t), "serve", "--config", file, "--state", p.state))
}

// served starts cmd, which is a whole command line, on p.
func served(p *place, cmd *exec.Cmd) *hostProcess {
	p.Helper()
	h := &hostProcess{place: p, cmd: cmd, log: &syncBuffer{}}
	cmd.Stderr = h.log
	out, err := cmd.StdoutPipe()
	ok(p, err)
	ok(p, cmd.Start())
	p.Cleanup(h.end)
	greeted := make(chan string, 1)
	go func() {
		s, locator := bufio.NewScanner(out), ""
		for s.Scan() {
			h.greeting = append(h.greeting, s.Text()) // until greeted has a value, and of no interest afterwards
			switch line := s.Text(); {
			case locator == "" && strings.HasPrefix(line, "capnp://"):
				locator = line
			case strings.HasPrefix(line, "Ctrl-C"):
				greeted <- locator
				_, _ = io.Copy(io.Discard, out)
				return
			}
		}
		close(greeted)
	}()
	begun := false
	select {
	case h.locator, begun = <-greeted:
	case <-time.After(2 * patience):
	}
	if !begun {
		p.Fatalf("capd serve did not begin: %s", h.log)
	}
	if h.locator == "" { // an earlier start has printed it
		again, err := execCapd(p, "grant", "again", "--state", p.state).Output()
		ok(p, err)
		h.locator = strings.TrimSpace(string(again))
	}
	return h
}

func (h *hostProcess) pid() string { return strconv.Itoa(h.cmd.Process.Pid) }

// end ends the host and checks what it left.
func (h *hostProcess) end() {
	if h.cmd == nil { // the test has ended it
		return
	}
	if !h.told { // a second signal would end it at once
		h.cmd.Process.Signal(syscall.SIGTERM)
	}
	killer := time.AfterFunc(2*patience, func() { h.cmd.Process.Kill() })
	defer killer.Stop()
	if err := h.cmd.Wait(); err != nil {
		h.Errorf("capd serve ended with %v: %s", err, h.log)
	}
	for _, bad := range []string{"internal", "panic", "DATA RACE", "goroutine "} {
		if strings.Contains(h.log.String(), bad) {
			h.Errorf("the host's log: %s", h.log)
			break
		}
	}
	if left, _ := filepath.Glob(filepath.Join(h.state, "*.sock")); len(left) > 0 {
		h.Errorf("sockets are left: %q", left)
	}
	h.noStaging()
}

// noStaging checks that no whole-file write has left anything in the served directory.
func (p *place) noStaging() {
	p.Helper()
	if left := p.staging(); len(left) > 0 {
		p.Errorf("staging directories are left: %q", left)
	}
}

func (p *place) staging() []string {
	left, _ := filepath.Glob(filepath.Join(p.served, ".capd-*"))
	return left
}

func (h *hostProcess) console() *console.Console {
	h.Helper()
	c, err := console.Dial(context.Background(), filepath.Join(h.state, "control.sock"))
	ok(h, err)
	h.Cleanup(func() { c.Close() })
	return c
}

// grant makes a grant, and returns its locator, its id and its control.
func (h *hostProcess) grant(guest, path string) (loc, id string, ctl *console.Control) {
	h.Helper()
	g, loc, ctl, err := h.console().GrantOn(context.Background(), guest, path, operator.Terms{Links: true})
	ok(h, err)
	return loc, g.ID, ctl
}

// dial connects a guest until the test ends. The host must not send it any of forbidden.
func dial(t testing.TB, loc string, forbidden ...string) *client.Conn {
	t.Helper()
	parsed, err := locator.Parse(loc)
	ok(t, err)
	nc := connectTo(t, parsed.Socket)
	if len(forbidden) > 0 {
		nc = &listener{Conn: nc, t: t, forbidden: forbidden}
	}
	c := client.NewConn(nc, parsed)
	t.Cleanup(func() { c.Close() })
	return c
}

// connectTo connects to a socket. If its queue of connections is full it tries again, as package
// client does.
func connectTo(t testing.TB, socket string) net.Conn {
	t.Helper()
	var nc net.Conn
	var err error
	waitFor(patience, func() bool {
		nc, err = net.Dial("unix", socket)
		return !errors.Is(err, syscall.EAGAIN)
	})
	ok(t, err)
	return nc
}

// listener looks in everything it receives for what must not be sent.
type listener struct {
	net.Conn
	t         testing.TB
	forbidden []string
	tail      []byte
}

func (l *listener) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	seen := append(l.tail, p[:n]...)
	for _, f := range l.forbidden {
		if i := bytes.Index(seen, []byte(f)); i >= 0 {
			attacks.escape(l.t)
			l.t.Errorf("the host sent %q in %q", f, seen[max(0, i-64):min(len(seen), i+len(f)+64)])
		}
	}
	l.tail = append([]byte(nil), seen[max(0, len(seen)-512):]...)
	return n, err
}

// is checks that err has one of the codes want, which spaces separate; "ok" means no error.
func is(t testing.TB, what string, err error, want string) bool {
	t.Helper()
	if !hasCode(err, want) {
		t.Errorf("%s: %q (%v), want %q", what, vfs.CodeOf(err), err, want)
		return false
	}
	return true
}

func hasCode(err error, want string) bool {
	code := string(vfs.CodeOf(err))
	if err == nil {
		code = "ok"
	}
	for w := range strings.FieldsSeq(want) {
		if w == code {
			return true
		}
	}
	return false
}

func isTimeout(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// syncBuffer is a buffer for a process's output.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// noStagedFiles checks that no whole-file write has left its bytes.
func (p *place) noStagedFiles() {
	p.Helper()
	files := func() []string {
		left, _ := filepath.Glob(filepath.Join(p.served, ".capd-*", "*"))
		return slices.DeleteFunc(left, func(f string) bool { return strings.HasPrefix(filepath.Base(f), ".git") || filepath.Base(f) == "lock" })
	}
	if !waitFor(5*time.Second, func() bool { return len(files()) == 0 }) {
		p.Errorf("staged files are left: %q", files())
	}
}

func execCapd(t testing.TB, args ...string) *exec.Cmd { return exec.Command(capd(t), args...) }

func nothing() *strings.Reader { return strings.NewReader("") }

// guestOf connects a guest, for programs that run beside the tests.
func guestOf(loc string) (*client.Conn, *client.Dir) {
	c, err := client.Dial(context.Background(), loc)
	if err != nil {
		panic(err)
	}
	return c, c.Dir(context.Background())
}
