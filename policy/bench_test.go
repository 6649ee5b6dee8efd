package policy_test

import (
	"testing"

	"capd/policy"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// BenchmarkTree looks a file up and reads it, behind a membrane without a policy, with one that
// has no rules, and with 22 rules of which none matches.
func BenchmarkTree(b *testing.B) {
	for _, c := range []struct {
		name   string
		guards []membrane.Guard
	}{
		{"no policy", nil},
		{"no rules", []membrane.Guard{{Policy: (&policy.Book{}).For("agent-run:a")}}},
		{"22 rules", []membrane.Guard{{Policy: book(b, "", roots, many()...).For("agent-run:a")}}},
	} {
		d, _, _ := check.Guarded(b, vfstest.Tree{"project/src/main.go": {Data: "text"}}, c.guards...)
		src := check.DirAt(b, d, "project/src")
		f := check.FileAt(b, d, "project/src/main.go")
		b.Run("lookup/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n, err := src.Lookup(b.Context(), "main.go")
				if err != nil {
					b.Fatal(err)
				}
				n.Close()
			}
		})
		b.Run("walk/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n, err := vfs.Walk(b.Context(), d, "project/src/main.go")
				if err != nil {
					b.Fatal(err)
				}
				n.Close()
			}
		})
		b.Run("read/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			p := make([]byte, 4)
			for b.Loop() {
				if _, err := f.ReadAt(b.Context(), p, 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
