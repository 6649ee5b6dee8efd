package copier

import (
	"context"

	"capd/vfs"
)

// Listing is what was in a tree when it was listed.
type Listing struct{ top *node }

// List lists from, completely, and opens no file. A copy of no more than that ends, even if it goes into from itself.
func List(ctx context.Context, from vfs.Dir, o Options) (*Listing, error) {
	l := &Listing{&node{}}
	o.onlyLook, o.Progress = true, nil
	if err := Copy(ctx, from, planner{node: l.top, hold: o.Hold}, o); err != nil {
		return nil, err
	}
	return l, nil
}

// Only returns a [Sink] that hands to the sink to what is in the listing, and leaves out the rest.
func (l *Listing) Only(to Sink) Sink { return listed{to, l.top} }

// listed is a directory that takes what was listed.
type listed struct {
	Sink
	plan *node
}

// Mkdir implements [Sink].
func (s listed) Mkdir(ctx context.Context, name string, info vfs.Info) (Sink, error) {
	n, err := s.plan.find(name).as(vfs.DirKind)
	if err != nil {
		return nil, ErrLeftOut
	}
	to, err := s.Sink.Mkdir(ctx, name, info)
	if err != nil {
		return nil, err
	}
	return listed{to, n}, nil
}

// File implements [Sink].
func (s listed) File(ctx context.Context, name string, f *File) error {
	if _, err := s.plan.find(name).as(vfs.FileKind); err != nil {
		return ErrLeftOut
	}
	return s.Sink.File(ctx, name, f)
}

// Link implements [Sink].
func (s listed) Link(ctx context.Context, name, target string) error {
	if _, err := s.plan.find(name).as(vfs.LinkKind); err != nil {
		return ErrLeftOut
	}
	return s.Sink.Link(ctx, name, target)
}
