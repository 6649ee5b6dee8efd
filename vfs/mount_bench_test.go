package vfs_test

import (
	"strings"
	"testing"

	"capd/vfs"
)

// BenchmarkReadAtMounted reads 4 KiB through a grant's view, the namespace and a
// mount's membrane.
func BenchmarkReadAtMounted(b *testing.B) {
	_, raw := store(b, sample)
	ok(b, put(b.Context(), raw, "f", strings.Repeat("x", 4096)))
	f := fileAt(b, vfs.Guarded(benchNS(b, raw), nil), "m/f")
	p := make([]byte, 4096)
	b.ReportAllocs()
	b.SetBytes(4096)
	for b.Loop() {
		if _, err := f.ReadAt(b.Context(), p, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWalkMounted(b *testing.B) {
	_, raw := store(b, sample)
	d := vfs.Guarded(benchNS(b, raw), nil)
	b.ReportAllocs()
	for b.Loop() {
		n, err := vfs.Walk(b.Context(), d, "m/a/b/c/f")
		if err != nil {
			b.Fatal(err)
		}
		n.Close()
	}
}

func benchNS(b *testing.B, raw vfs.Dir) vfs.Dir {
	return compose(b, map[string]vfs.Dir{"m": raw}).Root()
}
