package vat

import (
	"context"
	"net"
	"sync"
)

// Gather returns a connection to put beneath one of crypto/tls's, before that goes to [NewConn]. What TLS writes is
// gathered, and leaves without waiting for the peer: as on a plain socket, whoever has something to send writes it.
func Gather(nc net.Conn) net.Conn { return &gathered{Conn: nc} }

// gathered is as the connection it wraps until a Conn has taken it over. From then on Write keeps what it gets.
type gathered struct {
	net.Conn

	sock *socket

	mu   sync.Mutex
	on   bool
	cut  bool    // records were lost: none makes sense after them
	buf  *buffer // records that have not been taken
	size int
}

// NetConn returns what g wraps.
func (g *gathered) NetConn() net.Conn { return g.Conn }

// maxGathered is how many bytes may wait to be taken: what is sealed at once, and as much again for what TLS says of its
// own accord, which a peer can ask for.
const maxGathered = 4 * sealBytes

// tlsConn is what is used of a *tls.Conn.
type tlsConn interface {
	NetConn() net.Conn
	HandshakeContext(context.Context) error
}

// gatheredBelow returns what Gather made, if nc is TLS over that and there is a socket below.
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

// begin begins to gather.
func (g *gathered) begin() {
	g.mu.Lock()
	g.on = true
	g.mu.Unlock()
}

// end notes that nobody takes records any more, and whether some that were taken are lost.
func (g *gathered) end(lost bool) {
	g.mu.Lock()
	g.cut = lost
	g.mu.Unlock()
}

// Close sends what TLS has said last, if the socket takes it at once.
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
