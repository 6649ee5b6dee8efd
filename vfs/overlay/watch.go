package overlay

import (
	"context"
	"strings"

	"capd/vfs"
)

var _ vfs.Watcher = (*dir)(nil)

// Watch implements [vfs.Watcher]. It tells what changes in the lower tree. Where the overlay does not show that at its own path, it
// tells that something was lost.
func (d *dir) Watch(ctx context.Context, w vfs.Watch) (vfs.Watching, error) {
	if err := d.o.look(ctx); err != nil {
		return nil, err
	}
	here, err := d.here()
	if err != nil {
		d.o.mu.RUnlock()
		return nil, err
	}
	path, below := here.origin, here.below
	own := here.parent == nil || path == here.path()
	d.o.mu.RUnlock()
	if !below {
		return vfs.Unwatched{}, nil
	}
	tell := w.Tell
	w.Tell = func(all []vfs.Notice) {
		for _, n := range all {
			if n.Kind == vfs.Happened && !(own && d.o.shows(vfs.Join(path, n.Path)) && (n.From == "" || d.o.shows(vfs.Join(path, n.From)))) {
				tell([]vfs.Notice{{Kind: vfs.Lost}})
				return
			}
		}
		tell(all)
	}
	if path == "" {
		return vfs.WatchIn(ctx, d.o.lower, w)
	}
	n, err := d.o.lowerAt(ctx, path)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	lower, err := vfs.AsDir(n)
	if err != nil {
		return nil, err
	}
	return vfs.WatchIn(ctx, lower, w)
}

// shows reports whether what the lower tree has at path shows there. While the overlay is changed it reports that it does not.
func (o *Overlay) shows(path string) bool {
	if !o.mu.TryRLock() {
		return false
	}
	defer o.mu.RUnlock()
	at := o.root
	for name := range strings.SplitSeq(path, "/") {
		if at != o.root && !at.through() || at == o.root && !at.below {
			return false
		}
		next := at.children[name]
		if next == nil {
			return true
		}
		at = next
	}
	return at.through() || at.below && at.kind != vfs.DirKind
}
