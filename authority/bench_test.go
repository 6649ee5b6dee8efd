package authority_test

import (
	"fmt"
	"io"
	"testing"

	"capd/authority"
	"capd/database"
	"capd/meter"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// What one guest does costs the same however many grants there are. Each of these
// operations takes the lock that all guests need.
func BenchmarkAmongGrants(b *testing.B) {
	for _, roots := range []int{1, 16, 64} {
		h := newHost(b, nil)
		for i := range roots {
			fill(b, h, fmt.Sprintf("agent%d", i))
		}
		g, secret := grant(b, h, "honest", "a", false)
		run := func(name string, f func() error) {
			b.Run(fmt.Sprintf("%s/roots=%d", name, roots), func(b *testing.B) {
				for b.Loop() {
					ok(b, f())
				}
			})
		}
		run("restore", func() error {
			n, _, err := h.Restore(b.Context(), secret)
			ok(b, err)
			return n.Close()
		})
		run("share", func() error {
			n, _, err := h.Restore(b.Context(), secret)
			ok(b, err)
			_, ctl, err := h.Share(b.Context(), n)
			ok(b, err)
			ok(b, ctl.Revoke())
			ctl.Release()
			return n.Close()
		})
		run("lock", func() error { _, err := h.SetWritable(g.ID, false); return err })
		run("meter", func() error { _, err := h.Meter(b.Context(), g.ID); return err })
		ok(b, h.Close())
	}
}

// fill gives guest a grant with the most shares that it may have.
func fill(b *testing.B, h *authority.Host, guest string) {
	_, secret := grant(b, h, guest, "a", false)
	n, _, err := h.Restore(b.Context(), secret)
	ok(b, err)
	defer n.Close()
	for range meter.GrantLimits()[meter.Shares] {
		_, ctl, err := h.Share(b.Context(), n)
		ok(b, err)
		ctl.Release()
	}
}

// BenchmarkReadByPath reads a small file by its path, on a host that counts what is read and on one that does not.
func BenchmarkReadByPath(b *testing.B) {
	_, d := check.Store(b, vfstest.Tree{"a/b/c/f": {Data: "content"}})
	for _, counts := range []bool{false, true} {
		o := authority.Options{DB: database.Memory()}
		defer o.DB.Close()
		if counts {
			log, err := record.Open(o.DB, record.Options{})
			ok(b, err)
			defer log.Close()
			o.Record = log
		}
		h := authority.Open(d, o)
		_, secret := grant(b, h, "agent", "", false)
		n, _, err := h.Restore(b.Context(), secret)
		ok(b, err)
		b.Run(fmt.Sprint("counted=", counts), func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 16)
			for b.Loop() {
				f, err := vfs.Walk(b.Context(), n.(vfs.Dir), "a/b/c/f")
				ok(b, err)
				if _, err := f.(vfs.File).ReadAt(b.Context(), buf, 0); err != io.EOF {
					b.Fatal(err)
				}
				f.Close()
			}
		})
	}
}
