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

// InfoEntry is an entry of a listing with what Stat of it answers.
type InfoEntry struct {
	Name  string
	Info       // its Kind is always set
	Known bool // the rest of Info is, too
}

// ListWalker is a [Walker] that lists the directory at a path in one call, such as a Dir of a
// remote host.
type ListWalker interface {
	// WalkList lists the directory at path as List does; "" is the Dir itself. With withInfo
	// it looks at each entry, too, for which it needs the right to metadata. An entry that it
	// could not look at is not Known.
	WalkList(ctx context.Context, path string, withInfo bool) iter.Seq2[InfoEntry, error]
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
