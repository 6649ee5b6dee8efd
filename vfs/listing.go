package vfs

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
)

// Listing is what differs from directory to directory in a store that is only read.
// [NewImmutableDir] makes a [Dir] of it. Both methods may be called from several
// goroutines at once.
type Listing interface {
	// Lookup returns the node called name, which is a valid name. It answers notFound. A
	// file may be a [TextFile] or a [NewImmutableFile], and a directory a
	// NewImmutableDir.
	Lookup(ctx context.Context, name string) (Node, error)
	// List yields every entry once, in byte order of names, as [Entries] does. After an
	// error the listing ends.
	List(ctx context.Context) iter.Seq2[Entry, error]
}

// NewImmutableDir returns a directory with the nodes of l, in which every change answers
// readOnly. It checks names, and what l lists: a name that is not valid or not in order
// is internal. Once it is closed it answers stale.
func NewImmutableDir(l Listing) Dir { return &listedDir{listing: l} }

type listedDir struct {
	ImmutableDir
	reference
	listing Listing
}

// Stat implements [Node].
func (d *listedDir) Stat(ctx context.Context) (Info, error) {
	return Info{Kind: DirKind}, d.check(ctx)
}

// Lookup implements [Dir].
func (d *listedDir) Lookup(ctx context.Context, name string) (Node, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := d.check(ctx); err != nil {
		return nil, err
	}
	return d.listing.Lookup(ctx, name)
}

// List implements [Dir].
func (d *listedDir) List(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if err := d.check(ctx); err != nil {
			yield(Entry{}, err)
			return
		}
		last := ""
		for e, err := range d.listing.List(ctx) {
			switch {
			case err != nil:
			case CheckName(e.Name) != nil, e.Name <= last:
				err = Hide(fmt.Errorf("a directory lists %q after %q, which is not a valid name or not in byte order", e.Name, last))
			default:
				err = ctx.Err()
			}
			if !yield(e, err) || err != nil {
				return
			}
			last = e.Name
		}
	}
}

// Entries returns a listing of all, in byte order of names, for a [Listing].
func Entries(all ...Entry) iter.Seq2[Entry, error] {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return func(yield func(Entry, error) bool) {
		for _, e := range sorted {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// NewImmutableFile returns a file whose content never changes. Every change answers
// readOnly. open opens the content, and info has its size. Once the file is closed it
// answers stale.
func NewImmutableFile(info Info, open func(context.Context) (Content, error)) File {
	info.Kind = FileKind
	return &openedFile{info: info, open: open}
}

// TextFile returns a file with the content text.
func TextFile(text string) File {
	return NewImmutableFile(Info{Size: int64(len(text))}, func(context.Context) (Content, error) {
		return textContent{strings.NewReader(text)}, nil
	})
}

type textContent struct{ *strings.Reader }

func (textContent) Close() error { return nil }

type openedFile struct {
	ImmutableFile
	reference
	info Info
	open func(context.Context) (Content, error)
}

// Stat implements [Node].
func (f *openedFile) Stat(ctx context.Context) (Info, error) { return f.info, f.check(ctx) }

// Sync implements [File]. There is nothing to sync.
func (f *openedFile) Sync(ctx context.Context) error { return f.check(ctx) }

// Open implements [Opener].
func (f *openedFile) Open(ctx context.Context) (Content, error) {
	if err := f.check(ctx); err != nil {
		return nil, err
	}
	return f.open(ctx)
}

// ReadAt implements [File].
func (f *openedFile) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	c, err := f.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return ReadAt(c, p, off)
}

// reference is one reference to a node.
type reference struct{ closed atomic.Bool }

// Close implements [Node].
func (r *reference) Close() error {
	r.closed.Store(true)
	return nil
}

func (r *reference) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.closed.Load() {
		return ErrClosed
	}
	return nil
}
