package vat

import (
	"context"

	"capnproto.org/go/capnp/v3"
)

// copyContent makes dst's content a deep copy of src's, with references of its own to the same capabilities.
//
// go-capnp renumbers capability pointers when it copies between messages, by way of the messages' own tables of
// clients. Those tables are otherwise unused here: src's is filled with placeholders for the time of the copy,
// and what arrives in dst's tells the new numbering.
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
	// Pointers in src may meet in one object, and the copy has it as often as it is met.
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

// A placeholder stands for the capability of that index while a message is copied.
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
