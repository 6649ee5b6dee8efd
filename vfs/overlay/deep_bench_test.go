package overlay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
)

// BenchmarkDeepest measures what a host asks of as many changes, as deep, as an overlay
// keeps, and how long the put of another guest waits meanwhile.
func BenchmarkDeepest(b *testing.B) {
	for _, what := range []string{"Diff", "Growth", "Revert", "RevertOne"} {
		b.Run(what, func(b *testing.B) {
			var took, waited time.Duration
			for range b.N {
				o := deepest(b)
				ended := make(chan error, 1)
				began := time.Now()
				go func() {
					var err error
					switch what {
					case "Diff":
						_, err = o.Diff(b.Context(), "")
					case "Growth":
						_, err = o.Growth(b.Context())
					case "Revert":
						err = o.Revert(b.Context(), nil)
					case "RevertOne":
						err = o.Revert(b.Context(), []string{"a"})
					}
					ended <- err
				}()
				for done := false; !done; {
					before := time.Now()
					if _, err := o.Root().Replace(b.Context(), "honest", strings.NewReader("x"), vfs.If{}); err != nil {
						b.Fatal(err)
					}
					waited = max(waited, time.Since(before))
					select {
					case err := <-ended:
						if done = true; err != nil {
							b.Fatal(err)
						}
					default:
					}
				}
				took += time.Since(began)
				o.Close()
			}
			b.ReportMetric(took.Seconds()/float64(b.N), "s/call")
			b.ReportMetric(waited.Seconds(), "s-waited")
		})
	}
}

// deepest is an overlay with as many files as it keeps below a path of 255 names.
func deepest(b *testing.B) *overlay.Overlay {
	ok := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	lower := memory.New(memory.Limits{})
	o, err := overlay.New(b.Context(), lower.Root(), memory.New(memory.Limits{Nodes: 1 << 20, Bytes: 4 << 30}).Root(), overlay.Options{})
	ok(err)
	chain := func(top string, n int) vfs.Dir {
		d, err := o.Root().Mkdir(b.Context(), top)
		ok(err)
		for range n {
			d, err = d.Mkdir(b.Context(), "directory")
			ok(err)
		}
		return d
	}
	d := chain("t", 126)
	for i := range 30_000 {
		ok(d.(vfs.Symlinker).Symlink(b.Context(), fmt.Sprint(i), "x"))
	}
	into := chain("a", 126)
	ok(o.Root().Rename(b.Context(), "t", into, "t", vfs.If{}, vfs.If{}))
	return o
}
