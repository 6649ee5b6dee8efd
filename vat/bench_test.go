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
