package overlay

import (
	"bytes"
	"context"
	"slices"

	"capd/vfs"
)

// Waits reports whether changes wait in upper, the store of an overlay that is closed. It
// is [Overlay.Holds] without a lower tree. settling reports that an apply or a commit was
// interrupted; [New] finds out from the lower tree whether it was made. Waits answers
// corrupt for a damaged store, and unsupported for one that a newer version wrote.
func Waits(ctx context.Context, upper vfs.Dir) (waits, settling bool, err error) {
	o := &Overlay{upper: upper, contents: contents{all: map[int64]*content{}}}
	o.clear()
	written, err := o.opened(ctx)
	if err != nil || !written {
		return false, false, err
	}
	if _, err := o.replay(ctx); err != nil {
		return false, false, err
	}
	text, err := readWhole(ctx, upper, intentName)
	if vfs.CodeOf(err) == vfs.NotFound {
		err = nil
	}
	return o.Holds(), len(bytes.TrimSpace(text)) > 0, err
}

// Holds reports whether the overlay has changes, even if Diff returns none since the
// lower tree is the same by now.
func (o *Overlay) Holds() bool {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return slices.ContainsFunc(o.dump(), func(e edit) bool { return e.Do != touch })
}
