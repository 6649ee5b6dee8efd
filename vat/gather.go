package vat

import (
	"context"
	"net"
	"sync"
)

// Gather returns a connection to use below one of crypto/tls, which then goes to [NewConn]. The records that
// TLS writes are gathered, so that whoever sends something can write them without waiting for the peer, as on
// a plain socket.
func Gather(nc net.Conn) net.Conn { return &gathered{Conn: nc} }

// gathered behaves like the connection that it wraps until a Conn has taken it over. From then on Write keeps
// the records.
type gathered struct {
	net.Conn

	sock *socket

	mu   sync.Mutex
	on   bool
	cut  bool    // records were lost, so no later record is valid
	buf  *buffer // records that were not taken yet
	size int
}

// NetConn returns the wrapped connection.
func (g *gathered) NetConn() net.Conn { return g.Conn }

// maxGathered bounds, in bytes, the records that wait to be taken: what is sealed at once, and as much again
// for what TLS itself sends, which the peer can cause.
const maxGathered = 4 * sealBytes

// tlsConn has the methods used of a *tls.Conn.
type tlsConn interface {
	NetConn() net.Conn
	HandshakeContext(context.Context) error
}

// gatheredBelow returns what Gather returned, and the socket below it, if nc is TLS over both.
func gatheredBelow(nc net.Conn) (*gathered, *socket) {
	if t, ok := nc.(tlsConn); ok {
		if g, ok := t.NetConn().(*gathered); ok {
			if g.sock = socketOf(g.Conn); g.sock != nil {
				return g, g.sock
			}
		}
	}
	return nil, nil
}

func (g *gathered) begin() {
	g.mu.Lock()
	g.on = true
	g.mu.Unlock()
}

// end ends gathering. lost says that records were taken and lost.
func (g *gathered) end(lost bool) {
	g.mu.Lock()
	g.cut = lost
	g.mu.Unlock()
}

// Close sends the last records of TLS, if the socket takes them at once.
func (g *gathered) Close() error {
	g.mu.Lock()
	records, cut := []byte(nil), g.cut
	if g.buf != nil {
		records = g.buf.b[:g.size]
	}
	g.mu.Unlock()
	if g.sock != nil && len(records) > 0 && !cut {
		_, _, _ = g.sock.write([][]byte{records}, false)
	}
	return g.Conn.Close()
}

func (g *gathered) Write(p []byte) (int, error) {
	g.mu.Lock()
	if !g.on {
		g.mu.Unlock()
		return g.Conn.Write(p)
	}
	defer g.mu.Unlock()
	if g.size+len(p) > maxGathered {
		return 0, errParked
	}
	if need := g.size + len(p); g.buf == nil || need > len(g.buf.b) {
		larger := getBuffer(max(need, 8<<10))
		if g.buf != nil {
			copy(larger.b, g.buf.b[:g.size])
			g.buf.free()
		}
		g.buf = larger
	}
	copy(g.buf.b[g.size:], p)
	g.size += len(p)
	return len(p), nil
}

// take returns the records that were gathered.
func (g *gathered) take() (records []byte, buf *buffer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buf == nil {
		return nil, nil
	}
	records, buf = g.buf.b[:g.size], g.buf
	g.buf, g.size = nil, 0
	return records, buf
}
