//go:build linux || darwin

package vat

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"github.com/stretchr/testify/require"
)

// An answer of a stream is not sent by itself. It is sent when the reader finds nothing more to read.
func TestPatientFrames(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer l.Close()
	peer, err := net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	nc, err := l.Accept()
	require.NoError(t, err)

	sock := socketOf(nc)
	o := &outbox{nc: nc, sock: sock, inline: inlineFrame, soft: 1 << 20, max: 1 << 20, failed: func(error) {}}
	o.timer = true // as if the timer were due: none sends the frame
	m, err := newReturn(0)
	require.NoError(t, err)
	require.NoError(t, m.newContent(capnp.ObjectSize{}))
	o.append(m, false)
	m.unref()
	o.flushUrgent()
	require.NotZero(t, o.parked(), "the frame left by itself")

	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = newInput(nc, sock, o).more(nil)
	}()
	require.NoError(t, peer.SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err = peer.Read(make([]byte, 1<<10))
	require.NoError(t, err, "the frame has not left, and the reader waits")
	require.NoError(t, nc.Close())
	<-done
}
