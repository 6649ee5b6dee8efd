package vat_test

import (
	"testing"

	"capd/vat"
	tp "capd/vat/internal/testproto"
)

func benchPair(b *testing.B) (*pair, *vat.Cap) {
	p := connect(b, vat.Limits{})
	e := p.echoCap(b)
	b.Cleanup(e.Release)
	return p, e
}

func BenchmarkCall(b *testing.B) {
	_, e := benchPair(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		err := vat.Do(ctx, e, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error { return p.SetText("hello") }, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCall64(b *testing.B) {
	_, e := benchPair(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			err := vat.Do(ctx, e, tp.Echo_echo, func(p tp.Echo_echo_Params, _ *vat.Caps) error { return p.SetText("hello") }, nil)
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkRead256K(b *testing.B) {
	_, e := benchPair(b)
	ctx := b.Context()
	b.SetBytes(256 << 10)
	b.ReportAllocs()
	for b.Loop() {
		err := vat.Do(ctx, e, tp.Echo_data, func(p tp.Echo_data_Params, _ *vat.Caps) error { p.SetSize(256 << 10); return nil }, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkChain makes five calls, each on the capability that the one before returns.
func BenchmarkChain(b *testing.B) {
	for _, pipelined := range []bool{true, false} {
		b.Run(map[bool]string{true: "pipelined", false: "in sequence"}[pipelined], func(b *testing.B) {
			p := connect(b, vat.Limits{})
			ctx := b.Context()
			first := vat.Send(ctx, p.boot, tp.Server_chain, nil)
			chain := first.Cap(tp.Server_chain_Results_chain)
			first.Release()
			b.Cleanup(chain.Release)
			b.ReportAllocs()
			for b.Loop() {
				c := chain.AddRef()
				for range 4 {
					a := vat.Send(ctx, c, tp.Chain_next, nil)
					c.Release()
					c = a.Cap(tp.Chain_next_Results_chain)
					if !pipelined {
						if _, _, err := a.Await(ctx); err != nil {
							b.Fatal(err)
						}
					}
					a.Release()
				}
				if err := vat.Do(ctx, c, tp.Chain_depth, nil, nil); err != nil {
					b.Fatal(err)
				}
				c.Release()
			}
		})
	}
}
