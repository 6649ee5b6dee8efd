package physical_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

func Benchmark(b *testing.B) {
	for mode, o := range modes {
		dir := b.TempDir()
		if err := os.MkdirAll(dir+"/a/b/c", 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(dir+"/a/b/c/f", make([]byte, 4096), 0o644); err != nil {
			b.Fatal(err)
		}
		s := open(b, dir, o)
		n, err := walk(b.Context(), s.Root(), "a/b/c/f")
		if err != nil {
			b.Fatal(err)
		}
		f := n.(vfs.File)
		n, _ = walk(b.Context(), s.Root(), "a/b/c")
		d := n.(vfs.Dir)
		buf := make([]byte, 4096)
		b.Run("ReadAt/"+mode, func(b *testing.B) {
			for b.Loop() {
				if n, err := f.ReadAt(b.Context(), buf, 0); n != 4096 {
					b.Fatal(err)
				}
			}
		})
		b.Run("WriteAt/"+mode, func(b *testing.B) {
			for b.Loop() {
				if _, err := f.WriteAt(b.Context(), buf, 0, vfs.If{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("Stat/"+mode, func(b *testing.B) {
			for b.Loop() {
				f.Stat(b.Context())
			}
		})
		b.Run("Lookup/"+mode, func(b *testing.B) {
			for b.Loop() {
				d.Lookup(b.Context(), "f")
			}
		})
		b.Run("LookupDir/"+mode, func(b *testing.B) {
			for b.Loop() {
				s.Root().Lookup(b.Context(), "a")
			}
		})
	}
	b.Run("os.ReadFile", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "f")
		os.WriteFile(path, make([]byte, 4096), 0o644)
		for b.Loop() {
			os.ReadFile(path)
		}
	})
}

func BenchmarkList(b *testing.B) {
	dir := b.TempDir()
	for i := range 100_000 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%d", i)), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	s := open(b, dir, physical.Options{})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range s.Root().List(b.Context()) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
