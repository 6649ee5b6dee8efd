package overlay

import (
	"bytes"
	"context"

	"capd/vfs"
)

// record adds edits to the index. If the upper store has no room for another line, and
// the edits drop recorded nodes, it rewrites the index as it is after them.
func (o *Overlay) record(ctx context.Context, edits []edit, sync bool) error {
	err := o.index.append(ctx, edits, sync)
	if vfs.CodeOf(err) != vfs.Quota || !drops(edits) {
		return err
	}
	o.mu.RLock()
	text := o.after(edits)
	o.mu.RUnlock()
	if o.rewrite(ctx, text) != nil {
		return err
	}
	return nil
}

// mustRecord is record for edits that were made already. If they cannot be written, no
// later change is either; the next start finds out. Needs mu.
func (o *Overlay) mustRecord(ctx context.Context, edits []edit) {
	err := o.index.append(ctx, edits, true)
	if err != nil && o.index.lost == nil {
		err = o.rewrite(ctx, o.after(edits))
	}
	if err != nil && o.index.lost == nil {
		o.index.lost = vfs.Errorf(vfs.Internal, "the overlay could not record an apply; it has to be opened again")
	}
}

// assure makes sure that mustRecord will have room for edits.
func (o *Overlay) assure(ctx context.Context, edits []edit) error {
	x := &o.index
	if x.lost != nil {
		return x.lost
	}
	blank := bytes.Repeat([]byte(" "), len(line(edits))) // which counts as an incomplete line
	_, err := x.file.WriteAt(ctx, blank, x.end, vfs.If{})
	if err == nil {
		return nil
	}
	x.cut(ctx)
	o.mu.RLock()
	defer o.mu.RUnlock()
	if vfs.CodeOf(err) == vfs.Quota && int64(len(o.after(edits))) <= x.end {
		return nil
	}
	return err
}

// after returns the packed index of the tree after edits. Needs mu.
func (o *Overlay) after(edits []edit) []byte {
	other := &Overlay{contents: contents{all: map[int64]*content{}}}
	other.clear()
	other.edit(o.dump())
	other.edit(edits)
	return other.packed()
}

// drops reports whether edits drop more than they add, as a removal, a revert, or the
// end of an apply does.
func drops(edits []edit) bool {
	less, more := false, false
	for _, e := range edits {
		switch e.Do {
		case drop, adopt, forget:
			less = true
		case set:
			less = less || e.Node.Kind == gone
		case know:
			more = more || !e.Base.Moved && e.Base.Kind != 0
		case move:
			return false
		}
	}
	return less && !more
}
