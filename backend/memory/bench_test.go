package memory_test

import (
	"fmt"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
)

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{100, 64 * kib} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f, err := memory.New(memory.Limits{Bytes: 1 << 40}).Root().Create(b.Context(), "f")
			if err != nil {
				b.Fatal(err)
			}
			p := make([]byte, n)
			b.SetBytes(int64(n))
			size := 0
			for b.Loop() {
				if size += n; size > 64<<20 {
					size = 0
					f.Truncate(b.Context(), 0, vfs.If{})
				}
				if _, err := vfs.Append(b.Context(), f, p, vfs.If{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkStatDeep(b *testing.B) {
	d := memory.New(memory.Limits{}).Root()
	for range 100 {
		d, _ = d.Mkdir(b.Context(), "d")
	}
	f, err := d.Create(b.Context(), "f")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		f.Stat(b.Context())
	}
}
