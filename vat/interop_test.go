package vat_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	gorpc "capnproto.org/go/capnp/v3/rpc"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

// go-capnp's own RPC is the client: another implementation of the same protocol. Only tests link it.

func goCall(ctx context.Context, c capnp.Client, iface uint64, method uint16, size capnp.ObjectSize, place func(capnp.Struct) error) (*capnp.Answer, capnp.ReleaseFunc) {
	return c.SendCall(ctx, capnp.Send{
		Method:    capnp.Method{InterfaceID: iface, MethodID: method},
		ArgsSize:  size,
		PlaceArgs: place,
	})
}

type goCallback struct{}

func (goCallback) Send(context.Context, capnp.Send) (*capnp.Answer, capnp.ReleaseFunc) {
	return capnp.ErrorAnswer(capnp.Method{}, errors.New("no")), func() {}
}

func (goCallback) Recv(_ context.Context, r capnp.Recv) capnp.PipelineCaller {
	n := r.Args.Uint32(0)
	s, err := r.AllocResults(capnp.ObjectSize{DataSize: 8})
	r.ReleaseArgs()
	if err != nil {
		r.Reject(err)
		return nil
	}
	s.SetUint32(0, n+1)
	r.Return()
	return nil
}
func (goCallback) Brand() capnp.Brand { return capnp.Brand{} }
func (goCallback) Shutdown()          {}
func (goCallback) String() string     { return "goCallback" }

func TestInteropGoCapnpClient(t *testing.T) {
	a, b := sockets(t)
	w := newWorld()
	server := vat.NewConn(b, vat.Options{Bootstrap: vat.Serve(w.table, w)})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := gorpc.NewConn(gorpc.NewStreamTransport(a), nil)
	boot := client.Bootstrap(ctx)

	t.Run("call", func(t *testing.T) {
		ans, release := goCall(ctx, boot, tp.Server_TypeID, 0, capnp.ObjectSize{}, nil)
		defer release()
		e := ans.Field(0, nil).Client()
		got, release2 := goCall(ctx, e, tp.Echo_TypeID, 0, capnp.ObjectSize{PointerCount: 1}, func(s capnp.Struct) error { return s.SetText(0, "hello") })
		defer release2()
		s, err := got.Struct()
		vat.OK(t, err)
		p, err := s.Ptr(0)
		vat.OK(t, err)
		if got, want := p.Text(), "hello"; got != want {
			t.Errorf("p.Text() = %q, want %q", got, want)
		}
	})
	t.Run("pipeline", func(t *testing.T) {
		ans, release := goCall(ctx, boot, tp.Server_TypeID, 2, capnp.ObjectSize{}, nil)
		defer release()
		c := ans.Field(0, nil).Client()
		for range 4 {
			next, release := goCall(ctx, c, tp.Chain_TypeID, 2, capnp.ObjectSize{DataSize: 8}, func(s capnp.Struct) error { s.SetUint32(0, 2); return nil })
			defer release()
			c = next.Field(0, nil).Client()
		}
		d, release2 := goCall(ctx, c, tp.Chain_TypeID, 1, capnp.ObjectSize{}, nil)
		defer release2()
		s, err := d.Struct()
		vat.OK(t, err)
		if got := s.Uint32(0); got != 4 {
			t.Errorf("s.Uint32(0) = %d, want 4", got)
		}
	})
	t.Run("exception", func(t *testing.T) {
		ans, release := goCall(ctx, boot, 0xdead, 0, capnp.ObjectSize{}, nil)
		defer release()
		_, err := ans.Struct()
		if err == nil || !strings.Contains(err.Error(), "not implemented") {
			t.Errorf("ans.Struct: %v, want it to contain %q", err, "not implemented")
		}
	})
	t.Run("callback", func(t *testing.T) {
		cb := capnp.NewClient(goCallback{})
		ans, release := goCall(ctx, boot, tp.Server_TypeID, 3, capnp.ObjectSize{DataSize: 8, PointerCount: 1}, func(s capnp.Struct) error {
			s.SetUint32(0, 41)
			id := s.Segment().Message().CapTable().Add(cb)
			return s.SetPtr(0, capnp.NewInterface(s.Segment(), id).ToPtr())
		})
		defer release()
		s, err := ans.Struct()
		vat.OK(t, err)
		if got := s.Uint32(0); got != 42 {
			t.Errorf("s.Uint32(0) = %d, want 42", got)
		}
	})
	boot.Release()
	_ = client.Close()
	<-server.Done()
	w.drop()
	soon(t, func() bool { return w.live.Load() == 0 }, "objects leaked")
}
