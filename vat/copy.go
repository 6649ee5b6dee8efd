package vat

import (
	"context"

	"capnproto.org/go/capnp/v3"
)

// copyContent makes the content of dst a deep copy of that of src. The copy has references of its own to the
// same capabilities.
//
// When go-capnp copies between messages it renumbers capability pointers by means of the messages' own
// capability tables, which are otherwise unused here. So src's table gets a placeholder for each capability
// during the copy, and dst's table then gives the new numbers.
func copyContent(dst, src *message) error {
	if !src.content.IsValid() {
		return dst.setContent(capnp.Ptr{})
	}
	src.copying.Lock()
	defer src.copying.Unlock()
	if err := src.inline(); err != nil {
		return err
	}
	if len(src.caps) > 0 {
		clients := make([]capnp.Client, len(src.caps))
		for i := range clients {
			clients[i] = capnp.NewClient(placeholder(i))
		}
		src.msg.CapTable().Reset(clients...)
		defer src.msg.CapTable().Reset()
	}
	// The copy has an object once for every pointer that leads to it.
	src.msg.ResetReadLimit(uint64(2*(src.bytes()-src.capBytes)) + 1<<16)
	payload, err := dst.payload()
	if err == nil {
		err = payload.SetContent(src.content)
	}
	if err == nil {
		dst.content, err = payload.Content()
	}
	table := dst.msg.CapTable()
	for i := range table.Len() {
		snap := table.At(i).Snapshot()
		slot, ok := snap.Brand().Value.(placeholder)
		snap.Release()
		if ok {
			dst.caps = append(dst.caps, src.caps[slot].AddRef())
		} else {
			dst.caps = append(dst.caps, nil)
		}
	}
	table.Reset()
	return err
}

// A placeholder stands for the capability with that index during a copy.
type placeholder int

func (placeholder) Send(context.Context, capnp.Send) (*capnp.Answer, capnp.ReleaseFunc) {
	return capnp.ErrorAnswer(capnp.Method{}, ErrNull), func() {}
}
func (placeholder) Recv(_ context.Context, r capnp.Recv) capnp.PipelineCaller {
	r.Reject(ErrNull)
	return nil
}
func (p placeholder) Brand() capnp.Brand { return capnp.Brand{Value: p} }
func (placeholder) Shutdown()            {}
func (placeholder) String() string       { return "placeholder" }
