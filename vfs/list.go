package vfs

import (
	"context"
	"iter"
)

// FromLister is a Dir that can start a listing in the middle, so that every page of a
// long listing costs about the same.
type FromLister interface {
	// ListFrom is List without the names before from in byte order.
	ListFrom(ctx context.Context, from string) iter.Seq2[Entry, error]
}

// ListFrom lists the names of d from the name from on, in byte order.
func ListFrom(ctx context.Context, d Dir, from string) iter.Seq2[Entry, error] {
	if from == "" {
		return d.List(ctx)
	}
	if l, ok := d.(FromLister); ok {
		return l.ListFrom(ctx, from)
	}
	return func(yield func(Entry, error) bool) {
		for e, err := range d.List(ctx) {
			if (err != nil || e.Name >= from) && !yield(e, err) {
				return
			}
		}
	}
}
