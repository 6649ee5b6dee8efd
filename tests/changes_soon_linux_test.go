package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/vfs"
)

// TestChangesToldSoon prints how long it takes until a guest who waits is told of a put, from the moment that the put began, beside 10,000
// directories.
func TestChangesToldSoon(t *testing.T) {
	t.Parallel()
	const many = 10_000
	p := newPlaceInMemory(t)
	for i := range many {
		ok(t, os.MkdirAll(filepath.Join(p.served, fmt.Sprint(i/100), fmt.Sprint(i)), 0o755))
	}
	h := serveAt(p, execCapd(t))
	loc, _, _ := h.grant("watcher", "project")
	_, d := guestOf(loc)
	ctx := t.Context()
	page, err := d.Changes(ctx, vfs.ChangesQuery{})
	ok(t, err)
	if !page.Complete {
		t.Error("not everything is watched")
	}
	_, writer := guestOf(loc)
	rounds := times(20, 200)
	var took []time.Duration
	for i := range rounds {
		told := make(chan time.Time, 1)
		go func() {
			next, err := d.Changes(ctx, vfs.ChangesQuery{Cursor: page.Cursor, Wait: time.Minute})
			if err == nil {
				page = next
			}
			told <- time.Now()
		}()
		time.Sleep(5 * time.Millisecond)
		begun := time.Now()
		_, err := writer.Put(ctx, fmt.Sprintf("7/%d", i), strings.NewReader("x"), vfs.If{})
		ok(t, err)
		took = append(took, (<-told).Sub(begun))
	}
	slices.Sort(took)
	fmt.Printf("changes: a put is told after %v at p50, %v at p99 of %d\n", took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), rounds)
}
