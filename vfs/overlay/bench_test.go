package overlay_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/overlay"
)

// BenchmarkApply makes, compares and applies a thousand files in a hundred directories.
func BenchmarkApply(b *testing.B) {
	for b.Loop() {
		lower, upper, journal := memory.New(memory.Limits{}).Root(), memoryUpper(b), memoryUpper(b)
		o := laid(b, lower, upper)
		for i := range 100 {
			d, err := o.Root().Mkdir(b.Context(), fmt.Sprint(i))
			if err != nil {
				b.Fatal(err)
			}
			for k := range 10 {
				if _, err := d.Replace(b.Context(), fmt.Sprint(k), strings.NewReader("content"), vfs.If{}); err != nil {
					b.Fatal(err)
				}
			}
			d.Close()
		}
		if changes := diffOf(b, o); len(changes) != 1100 {
			b.Fatalf("%d changes", len(changes))
		}
		if _, err := o.Apply(b.Context(), overlay.ApplyOptions{Journal: journal}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBesideManyNames measures how long a lookup in another directory waits beside
// listings of a directory in which the overlay has many names.
func BenchmarkBesideManyNames(b *testing.B) {
	const many = 100_000
	for _, kind := range []string{"written", "open"} {
		lower := memory.New(memory.Limits{Nodes: 4 * many}).Root()
		ok := func(err error) {
			b.Helper()
			if err != nil {
				b.Fatal(err)
			}
		}
		for _, name := range []string{"many", "other"} {
			_, err := lower.Mkdir(b.Context(), name)
			ok(err)
		}
		o, err := overlay.New(b.Context(), lower, memory.New(memory.Limits{Nodes: 4 * many}).Root(), overlay.Options{Nodes: 2 * many})
		ok(err)
		n, err := o.Root().Lookup(b.Context(), "many")
		ok(err)
		d := n.(vfs.Dir)
		for i := range many {
			name := fmt.Sprintf("%08d", i)
			if kind == "open" {
				below, err := vfs.WalkDir(b.Context(), lower, "many")
				ok(err)
				_, err = below.Mkdir(b.Context(), name)
				ok(err)
				below.Close()
				_, err = d.Lookup(b.Context(), name)
				ok(err)
			} else {
				_, err = d.Create(b.Context(), name)
				ok(err)
			}
		}
		b.Run(kind, func(b *testing.B) {
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					for _, err := range d.List(b.Context()) {
						if err != nil {
							b.Error(err)
						}
						break
					}
				}
			})
			var took []time.Duration
			for b.Loop() {
				begun := time.Now()
				n, err := o.Root().Lookup(b.Context(), "other")
				ok(err)
				n.Close()
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*999/1000].Microseconds())/1000, "ms-p99.9")
			close(stop)
			wg.Wait()
		})
	}
}
