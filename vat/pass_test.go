package vat_test

import (
	"net"
	"testing"

	"capd/meter"
	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// passer is called twice. Its calls run one after the other, unless the first passes the line.
type passer struct{ calls, second chan struct{} }

// TestPassInTurn: a serial call that waits for a human lets the next call on its object start, as one that calls Go does, and once.
func TestPassInTurn(t *testing.T) {
	table := vat.NewTable(vat.Handle(tp.Stream_done, func(p *passer, c vat.Call[tp.Stream_done_Params, tp.Stream_done_Results]) error {
		select {
		case p.calls <- struct{}{}: // the first
			meter.Pass(c.Context())
			meter.Pass(c.Context())
			<-p.second
		default:
			close(p.second)
		}
		return nil
	}, vat.Serial()))
	a, b := net.Pipe()
	server := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(table, &passer{make(chan struct{}, 1), make(chan struct{})}), Meter: meter.NewHost(nil).Grant("g", nil)})
	client := vat.NewConn(b, vat.Options{})
	defer server.Close()
	defer client.Close()
	c := client.Bootstrap(t.Context())
	defer c.Release()
	first := vat.Send(t.Context(), c, tp.Stream_done, nil)
	second := vat.Send(t.Context(), c, tp.Stream_done, nil)
	for _, call := range []*vat.Answer[tp.Stream_done_Results]{second, first} {
		_, _, err := call.Await(t.Context())
		vat.OK(t, err)
		call.Release()
	}
}
