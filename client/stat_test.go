package client_test

import (
	"testing"

	"capd/vfs"
)

// A stat by path answers the same as a walk and a stat, and leaves nothing open.
func TestStatAt(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			s := serve(t, store(t, linkTree))
			loc, _ := grant(t, s, "", false)
			c := dial(t, loc)
			d := c.Dir(ctx)
			_, err := d.Stat(ctx)
			ok(t, err)
			before := c.Stats()
			for _, path := range []string{"f", "d", "d/e", "d/up", "way", "dir/g", "out", "absolute", "dangling", "loop", "missing", "f/x", "../f", "", "/f"} {
				for _, follow := range []bool{true, false} {
					var want vfs.Info
					n, wanted := d.Walk(ctx, path, follow)
					if wanted == nil {
						want, wanted = n.Stat(ctx)
						ok(t, n.Close())
					}
					got, err := vfs.StatAt(ctx, d, path, follow)
					is(t, path, err, vfs.CodeOf(wanted))
					if got != want {
						t.Errorf("%q, followed %v: %+v, want %+v", path, follow, got, want)
					}
				}
			}
			if after := c.Stats(); after.Imports > before.Imports {
				t.Errorf("%d capabilities are held, and there were %d", after.Imports, before.Imports)
			}
		})
	}
}
