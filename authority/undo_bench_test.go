package authority_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// BenchmarkJournalledPut says what it costs that a put can be undone: the same puts, in turns, with a history and without. Both are recorded.
func BenchmarkJournalledPut(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			with, without := &kept{t: b}, &kept{t: b, unkept: true}
			took := [2][]float64{}
			for _, k := range []*kept{with, without} {
				k.begin(physical.Options{})
			}
			content := make([]byte, size)
			for b.Loop() {
				for i, k := range []*kept{with, without} {
					content[rand.IntN(size)]++
					began := time.Now()
					_, err := vfs.Put(b.Context(), k.root, "f", bytes.NewReader(content), vfs.If{})
					took[i] = append(took[i], float64(time.Since(began)))
					check.OK(b, err)
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			b.ReportMetric(took[0][len(took[0])/2]/took[1][len(took[1])/2], "ratio")
		})
	}
}
