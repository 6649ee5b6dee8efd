package record

import (
	"testing"

	"capd/state"
	"capd/vfs/vfstest/check"
)

func BenchmarkVerify(b *testing.B) {
	const entries = 100_000
	d := state.Dir(b.TempDir())
	db, l := opened(b, d)
	for range entries / 10_000 {
		fill(b, db, l, 10_000)
	}
	defer closed(b, db, l)
	for b.Loop() {
		r, err := Verify(b.Context(), db, VerifyOptions{Key: keyLine(b)})
		if check.OK(b, err); len(r.Problems) > 0 {
			b.Fatal(r.Problems)
		}
	}
	b.ReportMetric(float64(entries*b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkIntend(b *testing.B) {
	db, l := opened(b, state.Dir(b.TempDir()))
	defer closed(b, db, l)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := l.Intend(Entry{Op: "replace", Path: "project/file", Grants: []Holder{{"g1", "agent"}}})
			if err := i.Wait(); err != nil {
				b.Error(err)
			}
			i.End(Outcome{})
		}
	})
}
