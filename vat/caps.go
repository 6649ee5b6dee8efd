package vat

import "capnproto.org/go/capnp/v3"

// Caps translates between capability pointers in a message and references. Each belongs to one call. A
// handler uses it to read parameters and to write results, place of Send to write parameters, and read of Do
// to read results.
type Caps struct {
	params  *message // to read from
	request *request // of a handler, for its results
	built   *message // of Send, to write to
}

// Get returns the capability that i points to, or nil if it is null or missing. The reference is borrowed: to
// keep it, call AddRef.
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
// reference. If it fails, the pointer is null.
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

// SetData sets a Data field of the parameters being built to a copy of b. It is the only copy on the way to
// the peer. Only one such field can be set.
func (c *Caps) SetData(of Field, b []byte) error {
	to, err := c.Data(of, len(b))
	copy(to, b)
	return err
}

// Data makes a Data field of the parameters being built n bytes long and returns its memory. The memory may
// contain anything: place has to fill all of it, or fail. The bytes are sent from there. Only one such field
// can be set.
func (c *Caps) Data(of Field, n int) ([]byte, error) {
	if c == nil || c.built == nil {
		return nil, errInternal
	}
	return c.built.data(of, n)
}
