package authority

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"capd/database"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
)

// load is a grant that is being made resident.
type load struct {
	done chan struct{} // closed when g or err is set
	g    *grant
	err  error
}

// load returns the grant with that id, and makes it resident if it is not. It answers why not.
func (h *Host) load(ctx context.Context, id int64) (*grant, error) {
	for {
		h.mu.Lock()
		if g, _ := h.residents.byID.Get(id); g != nil && (g.node != nil || g.end() != nil) {
			h.mu.Unlock()
			return g, g.end()
		}
		l := h.loading[id]
		if l == nil {
			l = &load{done: make(chan struct{})}
			h.loading[id] = l
			h.mu.Unlock()
			for l.err = errChanged; l.err == errChanged; {
				l.g, l.err = h.revive(ctx, id)
			}
			h.mu.Lock()
			delete(h.loading, id)
			h.mu.Unlock()
			close(l.done)
			return l.g, l.err
		}
		h.mu.Unlock()
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(l.err, context.Canceled) && !errors.Is(l.err, context.DeadlineExceeded) { // the other's call was cancelled
			return l.g, l.err
		}
	}
}

// read reads the row with that id. It answers notFound, and why the grant has ended.
func (h *Host) read(ctx context.Context, id int64) (r *row, err error) {
	err = h.db.Read(ctx, func(rows *database.Rows) error {
		r, err = find(rows, byID, id)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoGrant
	}
	if err != nil {
		return nil, err
	}
	h.withdrawn.mark(r)
	if r.ended == "" && r.over(h.clock.Now()) {
		return r, vfs.Expired
	}
	return r, r.end()
}

// revive makes the grant with that id resident.
func (h *Host) revive(ctx context.Context, id int64) (*grant, error) {
	roots := h.roots.Load()
	r, err := h.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if h.places != nil && !h.places.Remains(r.path, r.mounts) {
		return nil, errElsewhere
	}
	var from *grant
	if r.parent != 0 {
		if from, err = h.load(ctx, r.parent); err != nil {
			return nil, err
		}
	}
	node, release, err := h.lead(ctx, r, from)
	if err != nil {
		return nil, err
	}
	defer release()
	if from != nil {
		from.meter.Force(meter.Shares, 1)
	}
	g, err := h.build(r, node, from)
	if err != nil {
		return nil, err
	}
	h.settings.Lock()
	defer h.settings.Unlock()
	err = h.refuse(ctx, g)
	if h.roots.Load() != roots {
		err = errChanged // they may withhold other paths
	}
	if err != nil {
		h.discard(g)
		return nil, err
	}
	return h.publish(ctx, g)
}

// lead returns the node that r leads to, if it is still the same. The caller calls release.
func (h *Host) lead(ctx context.Context, r *row, from *grant) (n vfs.Node, release func(), err error) {
	if from == nil {
		n, release, err = h.walk(ctx, r.subject, r.path)
	} else {
		n, release, err = h.below(ctx, from, r.path)
	}
	if err != nil {
		return nil, nil, lost(err)
	}
	same, err := h.same(ctx, r, n)
	if err == nil && same {
		return n, release, nil
	}
	release()
	if err == nil {
		err = errElsewhere
	}
	return nil, nil, lost(err)
}

// borrow returns a reference to g's node. It answers errChanged if g was let go.
func (h *Host) borrow(g *grant) (vfs.Node, error) {
	h.evictor.borrow.RLock()
	defer h.evictor.borrow.RUnlock()
	h.mu.Lock()
	node, evicted := g.node, g.evicted
	h.mu.Unlock()
	switch {
	case evicted:
		return nil, errChanged
	case node == nil:
		return nil, errElsewhere
	}
	return vfs.Dup(node)
}

// below returns the node at path, which is that of from or below it.
func (h *Host) below(ctx context.Context, from *grant, path string) (n vfs.Node, release func(), err error) {
	if n, err = h.borrow(from); err != nil {
		return nil, nil, err
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(path, from.path), "/")
	if rest == "" {
		return n, func() { n.Close() }, nil
	}
	defer n.Close()
	d, err := vfs.AsDir(n)
	if err != nil {
		return nil, nil, err
	}
	if n, err = vfs.Walk(ctx, d, rest); err != nil {
		return nil, nil, err
	}
	return n, func() { n.Close() }, nil
}

// same reports whether node is what r was made for: at the same path, without links, and the same directory.
func (h *Host) same(ctx context.Context, r *row, node vfs.Node) (bool, error) {
	if at, ok := membrane.PlaceOf(node); !ok || at.Path != r.path {
		return false, nil
	}
	if r.identity == "" {
		return true, nil
	}
	now, err := h.identity(ctx, r.path, node)
	return now == r.identity, err
}

// lost returns the error of a walk to where a grant leads. What is not there now may be there again.
func lost(err error) error {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.NotDir, vfs.IsDir, vfs.NotRegular, vfs.Outside, vfs.Denied:
		return errElsewhere
	}
	return err
}

var errElsewhere = vfs.Errorf(vfs.Stale, "what this locator leads to was moved, replaced or unmounted; the locator works again when it is back")
