package host_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/client"
	"capd/host"
	"capd/locator"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

var ok, eventually = check.OK, check.Eventually

// start serves tree and returns a function that dials it.
func start(t *testing.T, tree vfs.Dir, o host.Options) (s *host.Server, served <-chan error, dial func() net.Conn, loc locator.Locator) {
	t.Helper()
	h := scene.Serve(t, tree, scene.Options{Options: o})
	loc, _ = h.Grant(t, "agent", "", false)
	return h.Server, h.Served, func() net.Conn { return scene.DialRaw(t, loc.Socket) }, loc
}

func TestClose(t *testing.T) {
	s, served, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	c := client.NewConn(dial(), loc)
	defer c.Close()
	_, err := c.Dir(t.Context()).Stat(t.Context())
	ok(t, err)
	ok(t, s.Close())
	ok(t, <-served)
	<-c.Done()
	if s.Conns() != 0 {
		t.Errorf("%d connections after Close", s.Conns())
	}
	if _, err := net.Dial("unix", loc.Socket); err == nil {
		t.Error("a closed server listens")
	}
	l, err := net.Listen("unix", loc.Socket+"2")
	ok(t, err)
	ok(t, s.ServeGuests(l)) // it returns at once
	ok(t, s.Close())
}

// Malformed data ends the connection that it came on, and no other.
func TestMalformedFrames(t *testing.T) {
	s, _, dial, loc := start(t, memory.New(memory.Limits{}).Root(), host.Options{})
	c := client.NewConn(dial(), loc)
	defer c.Close()
	d := c.Dir(t.Context())
	for _, frame := range [][]byte{
		bytes.Repeat([]byte{0xff}, 64), []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), {0, 0, 0, 0, 0xff, 0xff, 0xff, 0x7f},
		append([]byte{0, 0, 0, 0, 1, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 8)...),
	} {
		nc := dial()
		nc.Write(frame)
		nc.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, nc); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %.10q the connection goes on: %v", frame, err)
		}
		_, err := d.Stat(t.Context())
		ok(t, err)
	}
	eventually(t, "they are gone", func() bool { return s.Conns() == 1 })
}

// The host logs the cause of an internal error, which the guest does not see.
func TestInternalErrorsAreLogged(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	_, _, dial, loc := start(t, broken{memory.New(memory.Limits{}).Root()}, host.Options{Logf: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(format)
		for _, a := range args {
			if err, ok := a.(error); ok {
				log.WriteString(err.Error())
			}
		}
	}})
	c := client.NewConn(dial(), loc)
	defer c.Close()
	_, err := c.Dir(t.Context()).Stat(t.Context())
	if vfs.CodeOf(err) != vfs.Internal || strings.Contains(err.Error(), "secret") {
		t.Errorf("the guest is told %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "/host/secret") {
		t.Errorf("the host is told %q", log.String())
	}
}

// broken fails with an error that names a host path.
type broken struct{ vfs.Dir }

func (broken) Stat(context.Context) (vfs.Info, error) {
	return vfs.Info{}, &os.PathError{Op: "open", Path: "/host/secret", Err: os.ErrPermission}
}
