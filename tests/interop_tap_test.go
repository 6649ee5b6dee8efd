package tests

import (
	"bytes"
	"net"
	"sync"

	"capnproto.org/go/capnp/v3"
	rpccp "capnproto.org/go/capnp/v3/std/capnp/rpc"
)

// wireTap is a connection on which every message is counted by its kind.
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
	kept  int // calls whose results stay with the callee
	taken int // answers that such results are another's
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
			return // not all of it is there
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
