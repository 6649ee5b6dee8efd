package overlay

import (
	"bytes"
	"context"

	"capd/vfs"
)

// record adds edits to the index. When the upper store has no room for another line, and
// they drop what is in the index, it is written anew as it is with them.
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

// mustRecord is record for what was done already. When it cannot be written, nothing else
// is from then on; the next start finds out. mu is held.
func (o *Overlay) mustRecord(ctx context.Context, edits []edit) {
	err := o.index.append(ctx, edits, true)
	if err != nil && o.index.lost == nil {
		err = o.rewrite(ctx, o.after(edits))
	}
	if err != nil && o.index.lost == nil {
		o.index.lost = vfs.Errorf(vfs.Internal, "the overlay could not record an apply; it has to be opened again")
	}
}

// assure sees to it that mustRecord will have the room for edits.
func (o *Overlay) assure(ctx context.Context, edits []edit) error {
	x := &o.index
	if x.lost != nil {
		return x.lost
	}
	blank := bytes.Repeat([]byte(" "), len(line(edits))) // which is a torn line
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

// after is the packed index of the tree as edits make it. mu is held.
func (o *Overlay) after(edits []edit) []byte {
	other := &Overlay{contents: contents{all: map[int64]*content{}}}
	other.clear()
	other.edit(o.dump())
	other.edit(edits)
	return other.packed()
}

// drops reports whether edits drop more than they add, as a removal does, a revert and
// what follows an apply.
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
