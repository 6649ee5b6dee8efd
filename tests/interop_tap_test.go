package tests

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"capnproto.org/go/capnp/v3"
	rpccp "capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// wireTap is a connection that counts its messages by kind.
type wireTap struct {
	net.Conn
	in, out tap
}

func (w *wireTap) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.in.add(p[:n])
	return n, err
}

func (w *wireTap) Write(p []byte) (int, error) {
	w.out.add(p)
	return w.Conn.Write(p)
}

// tap counts the messages of one direction.
type tap struct {
	mu    sync.Mutex
	bytes bytes.Buffer
	kinds map[rpccp.Message_Which]int
	kept  int // calls whose results stay at the callee
	taken int // answers that refer to the results of another call
}

func (t *tap) add(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bytes.Write(p)
	if t.kinds == nil {
		t.kinds = map[rpccp.Message_Which]int{}
	}
	for {
		whole := bytes.NewReader(t.bytes.Bytes())
		m, err := capnp.NewDecoder(whole).Decode()
		if err != nil {
			return // the message is incomplete
		}
		t.bytes.Next(t.bytes.Len() - whole.Len())
		if root, err := rpccp.ReadRootMessage(m); err == nil {
			t.note(root)
		}
	}
}

func (t *tap) note(m rpccp.Message) {
	t.kinds[m.Which()]++
	switch m.Which() {
	case rpccp.Message_Which_call:
		if c, err := m.Call(); err == nil && c.SendResultsTo().Which() == rpccp.Call_sendResultsTo_Which_yourself {
			t.kept++
		}
	case rpccp.Message_Which_return:
		if r, err := m.Return(); err == nil && r.Which() == rpccp.Return_Which_takeFromOtherQuestion {
			t.taken++
		}
	}
}

func (t *tap) count(kind rpccp.Message_Which) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kinds[kind]
}

// heldUntil leads to a host. On every connection but the first, its answers are held until n calls
// were made.
func heldUntil(n int) func(testing.TB, string) string {
	return func(t testing.TB, socket string) string {
		dir, err := os.MkdirTemp("", "capd") // a test's own directory may be too long for a socket's name
		ok(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		l, err := net.Listen("unix", filepath.Join(dir, "s"))
		ok(t, err)
		t.Cleanup(func() { l.Close() })
		go func() {
			for first := true; ; first = false {
				guest, err := l.Accept()
				if err != nil {
					return
				}
				host, err := net.Dial("unix", socket)
				if err != nil {
					guest.Close()
					return
				}
				go pass(guest, host, n, first)
			}
		}()
		return l.Addr().String()
	}
}

// pass forwards data between two connections until one of them ends. Unless atOnce is set, data
// from the host waits for the guest's nth call.
func pass(guest, host net.Conn, n int, atOnce bool) {
	defer guest.Close()
	from := &caller{wireTap: wireTap{Conn: guest}, n: n, called: make(chan struct{})}
	go func() {
		defer host.Close()
		io.Copy(host, from)
		from.once.Do(func() { close(from.called) })
	}()
	if !atOnce {
		<-from.called
	}
	io.Copy(guest, host)
}

// caller is a connection that reports when n calls have come on it.
type caller struct {
	wireTap
	n      int
	once   sync.Once
	called chan struct{}
}

func (c *caller) Read(p []byte) (int, error) {
	n, err := c.wireTap.Read(p)
	if c.in.count(rpccp.Message_Which_call) >= c.n {
		c.once.Do(func() { close(c.called) })
	}
	return n, err
}
