package tests

import (
	"fmt"
	"os"
	"testing"
)

// BenchmarkRead reads parts of an open file through the whole of capd, client and
// host in one process and a socket between them; and, for comparison, with the
// system call alone.
func BenchmarkRead(b *testing.B) {
	h := serveHere(b, nil)
	const size = 4 << 20
	path := h.served + "/a/b/c"
	ok(b, os.MkdirAll(path, 0o755))
	ok(b, os.WriteFile(path+"/f", make([]byte, size), 0o644))
	g := h.guest("project")
	f := g.OpenFile("a/b/c/f")
	defer f.Close()
	bare, err := os.Open(path + "/f")
	ok(b, err)
	defer bare.Close()
	for _, n := range []int{4 << 10, 64 << 10, 256 << 10, 1 << 20} {
		buf := make([]byte, n)
		run := func(name string, read func(off int64) (int, error)) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, n>>10), func(b *testing.B) {
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for i := int64(0); b.Loop(); i++ {
					if got, err := read(i * int64(n) % size); got != n {
						b.Fatal(got, err)
					}
				}
			})
		}
		run("capd", func(off int64) (int, error) { return f.ReadAt(b.Context(), buf, off) })
		run("pread", func(off int64) (int, error) { return bare.ReadAt(buf, off) })
	}
	b.Run("stat/by path", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f := g.OpenFile("a/b/c/f")
			if _, err := f.Stat(b.Context()); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	b.Run("stat/open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.Stat(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
