package physical_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest/check"
)

// BenchmarkStatAt is what a host does for a stat by a path of one name and of five.
func BenchmarkStatAt(b *testing.B) {
	dir := b.TempDir()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(b, err)
	defer s.Close()
	ns := namespace.New()
	check.OK(b, ns.Mount("mount", s.Root(), namespace.Options{Guards: []membrane.Guard{deny.Must("**/.env").Guard()}}))
	defer ns.Close()
	root, err := vfs.WalkDir(b.Context(), membrane.Guarded(ns.Root(), nil), "mount")
	check.OK(b, err)
	for _, depth := range []int{1, 2, 5} {
		path := strings.Repeat("d/", depth-1) + "f"
		check.OK(b, os.MkdirAll(filepath.Join(dir, filepath.Dir(path)), 0o755))
		check.OK(b, os.WriteFile(filepath.Join(dir, path), nil, 0o600))
		for _, ctx := range []context.Context{vfs.Trying(), b.Context()} {
			b.Run(fmt.Sprintf("%d names/trying=%v", depth, vfs.IsTrying(ctx)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := vfs.StatAt(vfs.Recalling(ctx), root, path, true); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
