//go:build linux || darwin

package vat

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
)

// An answer of a stream is not sent by itself. It is sent when the reader finds nothing more to read.
func TestPatientFrames(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	OK(t, err)
	defer l.Close()
	peer, err := net.Dial("unix", l.Addr().String())
	OK(t, err)
	defer peer.Close()
	nc, err := l.Accept()
	OK(t, err)

	sock := socketOf(nc)
	o := &outbox{nc: nc, sock: sock, inline: inlineFrame, soft: 1 << 20, max: 1 << 20, failed: func(error) {}}
	o.timer = true // as if the timer were due: none sends the frame
	m, err := newReturn(0)
	OK(t, err)
	OK(t, m.newContent(capnp.ObjectSize{}))
	o.append(m, false)
	m.unref()
	o.flushUrgent()
	if got := o.parked(); got == 0 {
		t.Fatal("the frame left by itself")
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = newInput(nc, sock, o).more(nil)
	}()
	OK(t, peer.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = peer.Read(make([]byte, 1<<10))
	if err != nil {
		t.Fatalf("the frame has not left though the reader waits: %v", err)
	}
	OK(t, nc.Close())
	<-done
}
