package vat

import "capnproto.org/go/capnp/v3"

// Caps connects the capability pointers in a message to references. One belongs to one call: a handler reads
// parameters and writes results with it, Send's place writes parameters, and a reader of results reads those.
type Caps struct {
	params  *message // read from
	request *request // a handler's: results are written
	built   *message // Send's: written
}

// Get returns the capability that i points to: nil when it is null, or when there is none. It is borrowed: call
// AddRef to keep it.
func (c *Caps) Get(i capnp.Interface) *Cap {
	if c == nil || !i.IsValid() {
		return nil
	}
	for _, m := range []*message{c.params, c.built, c.results()} {
		if m != nil && i.Message() == &m.msg {
			return m.capAt(i)
		}
	}
	return nil
}

func (c *Caps) results() *message {
	if c.request == nil {
		return nil
	}
	return c.request.results
}

// Put adds a capability to the message being built and returns the pointer to store there. It takes over the
// reference, also when it fails, in which case the pointer is null.
func (c *Caps) Put(ref *Cap) capnp.Interface {
	if ref == nil {
		return capnp.Interface{}
	}
	m := c.built
	if c.request != nil {
		m, _ = c.request.allocate(0)
	}
	if m == nil {
		ref.Release()
		return capnp.Interface{}
	}
	m.caps = append(m.caps, ref)
	return capnp.NewInterface(m.seg, capnp.CapabilityID(len(m.caps)-1))
}

// SetData makes the field of of the parameters being built, a Data, a copy of b: the one copy that is made of it on
// its way. There is one such field.
func (c *Caps) SetData(of Field, b []byte) error {
	to, err := c.Data(of, len(b))
	copy(to, b)
	return err
}

// Data makes the field of of the parameters being built, a Data, n bytes long and returns its memory, which may hold
// anything: place fills all of it, or fails. The bytes leave for the peer from there.
func (c *Caps) Data(of Field, n int) ([]byte, error) {
	if c == nil || c.built == nil {
		return nil, errInternal
	}
	return c.built.data(of, n)
}
