package namespace_test

import (
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// BenchmarkReadAtMounted reads 4 KiB through a grant's view, the namespace and a mount's
// membrane.
func BenchmarkReadAtMounted(b *testing.B) {
	_, raw := check.Store(b, check.Sample)
	check.OK(b, check.Put(b.Context(), raw, "f", strings.Repeat("x", 4096)))
	f := check.FileAt(b, membrane.Guarded(benchNS(b, raw), nil), "m/f")
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
	_, raw := check.Store(b, check.Sample)
	d := membrane.Guarded(benchNS(b, raw), nil)
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
	return check.Compose(b, map[string]vfs.Dir{"m": raw}).Root()
}
