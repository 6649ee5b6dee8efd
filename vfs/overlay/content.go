package overlay

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"capd/vfs"
)

// content is what was written to a file. It is a file of its own in the upper store.
type content struct {
	id     int64
	writes atomic.Uint64 // grows when a write in place begins and when it ends

	mu    sync.Mutex
	known vfs.File // nil until it is opened
}

// contents are all contents of the overlay.
type contents struct {
	dir  vfs.Dir
	mu   sync.Mutex
	last int64 // the highest number used so far
	all  map[int64]*content
}

func (c *content) name() string { return strconv.FormatInt(c.id, 10) }

// open opens the directory of contents, and creates it if it is missing.
func (cs *contents) open(ctx context.Context, upper vfs.Dir) (err error) {
	cs.all = map[int64]*content{}
	cs.dir, err = vfs.LookupAs[vfs.Dir](ctx, upper, contentsName, errIndex)
	if vfs.CodeOf(err) == vfs.NotFound {
		cs.dir, err = upper.Mkdir(ctx, contentsName)
	}
	return err
}

func (cs *contents) close() {
	cs.mu.Lock()
	all := slices.Collect(maps.Values(cs.all))
	cs.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	if cs.dir != nil {
		cs.dir.Close()
	}
}

// get returns the content with the number id.
func (cs *contents) get(id int64) *content {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.all[id]
	if c == nil {
		c = &content{id: id}
		cs.all[id] = c
	}
	cs.last = max(cs.last, id)
	return c
}

// fresh returns a content with a new number.
func (cs *contents) fresh() *content {
	cs.mu.Lock()
	id := cs.last + 1
	cs.last = id
	cs.mu.Unlock()
	return cs.get(id)
}

// create makes an empty content.
func (cs *contents) create(ctx context.Context) (*content, error) {
	c := cs.fresh()
	f, err := cs.dir.Create(inside(ctx), c.name())
	if err != nil {
		cs.forget(c)
		return nil, err
	}
	c.known = f
	return c, nil
}

// stage stores all of r. It returns an error of r unchanged.
func (cs *contents) stage(ctx context.Context, r io.Reader) (*content, vfs.Version, error) {
	c := cs.fresh()
	v, err := cs.dir.Replace(inside(ctx), c.name(), patient{ctx, r}, vfs.If{Absent: true})
	if err != nil {
		cs.forget(c)
		return nil, vfs.Version{}, besideOld(err)
	}
	return c, v, nil
}

// patient reads from r and lets other calls have ctx's turn. The upper store knows nothing of
// that turn.
type patient struct {
	ctx context.Context
	r   io.Reader
}

func (p patient) Read(b []byte) (int, error) { return vfs.ReadFull(p.ctx, p.r, b) }

// besideOld adds to a quota error that a replacement needs room beside the old content.
func besideOld(err error) error {
	e, ok := errors.AsType[*vfs.Error](err)
	if !ok || e.Code != vfs.Quota {
		return err
	}
	more := *e
	more.Msg = e.Msg + "; a change of a file needs room for the old content and the new"
	return &more
}

// file opens c in the upper store. It stays open until c is removed.
func (cs *contents) file(ctx context.Context, c *content) (vfs.File, error) {
	if !vfs.IsTrying(ctx) {
		c.mu.Lock()
	} else if !c.mu.TryLock() {
		return nil, vfs.ErrWouldBlock
	}
	defer c.mu.Unlock()
	if c.known != nil {
		return c.known, ready(ctx, c.known)
	}
	if err := ready(ctx, cs.dir); err != nil {
		return nil, err
	}
	f, err := vfs.LookupAs[vfs.File](ctx, cs.dir, c.name(), errIndex)
	if err != nil {
		return nil, err
	}
	c.known = f
	return f, ready(ctx, f)
}

// remove removes c, which has left the tree. If it cannot be removed, the next start
// removes it.
func (cs *contents) remove(ctx context.Context, c *content) {
	if c == nil {
		return
	}
	_ = cs.dir.Remove(inside(context.WithoutCancel(ctx)), c.name(), vfs.If{})
	cs.forget(c)
}

func (cs *contents) forget(c *content) {
	c.close()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.all, c.id)
}

func (c *content) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known != nil {
		c.known.Close()
		c.known = nil
	}
}

// sweep removes contents that no node uses, left by a change that was not completed. It
// answers corrupt when one is missing.
func (o *Overlay) sweep(ctx context.Context) error {
	wanted := map[string]bool{}
	o.root.each(func(n *node) {
		if n.content != nil {
			wanted[n.content.name()] = true
		}
	})
	var stray []string
	for e, err := range o.contents.dir.List(ctx) {
		if err != nil {
			return err
		}
		if !wanted[e.Name] {
			stray = append(stray, e.Name)
		}
		delete(wanted, e.Name)
	}
	if len(wanted) > 0 {
		return errIndex
	}
	for _, name := range stray {
		if err := o.contents.dir.Remove(ctx, name, vfs.If{}); err != nil {
			return err
		}
	}
	return nil
}
