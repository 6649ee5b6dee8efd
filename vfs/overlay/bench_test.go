package overlay_test

import (
	"fmt"
	"strings"
	"testing"

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
		if changes := diff(b, o); len(changes) != 1100 {
			b.Fatalf("%d changes", len(changes))
		}
		if _, err := o.Apply(b.Context(), overlay.ApplyOptions{Journal: journal}); err != nil {
			b.Fatal(err)
		}
	}
}
