package client

import (
	"context"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

var _ vfs.Historian = (*Dir)(nil)

// History implements vfs.Historian. See also [Dir.Past].
func (d *Dir) History(ctx context.Context, q vfs.PastQuery) (vfs.PastPage, error) {
	return ask(ctx, &d.ref, schema.Dir_history, func(p schema.Dir_history_Params, _ *vat.Caps) error {
		p.SetBefore(uint64(max(0, q.Before)))
		p.SetLimit(uint32(max(0, q.Limit)))
		return nil
	}, func(r schema.Dir_history_Results, _ *vat.Caps) (vfs.PastPage, error) {
		all, err := r.Entries()
		return wire.PastPage(all, err, r.More(), r.SinceMs())
	})
}

// Undo implements vfs.Historian.
func (d *Dir) Undo(ctx context.Context, w vfs.Undo) (vfs.Undone, error) {
	return ask(ctx, &d.ref, schema.Dir_undo, func(p schema.Dir_undo_Params, _ *vat.Caps) error {
		what, err := p.NewWhat()
		if err != nil {
			return err
		}
		p.SetDryRun(w.DryRun)
		return wire.SetUndo(what, w)
	}, func(r schema.Dir_undo_Results, _ *vat.Caps) (vfs.Undone, error) {
		ids, err := r.Entries()
		return wire.Undone(r.Id(), ids, err)(r.Steps())
	})
}

// Past implements vfs.Historian. Each read is a call.
func (d *Dir) Past(ctx context.Context, path string, v vfs.Version) (vfs.Content, error) {
	c := &pastContent{ctx: ctx, d: d, path: path, v: v}
	_, _, err := c.read(nil, 0)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// pastContent is a content that history has.
type pastContent struct {
	ctx  context.Context
	d    *Dir
	path string
	v    vfs.Version
	size int64
}

func (c *pastContent) Size() int64  { return c.size }
func (c *pastContent) Close() error { return nil }

// ReadAt implements io.ReaderAt.
func (c *pastContent) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, vfs.ErrOffset
	}
	for n < len(p) {
		k, eof, err := c.read(p[n:min(len(p), n+wire.MaxChunk)], off+int64(n))
		n += k
		switch {
		case err != nil:
			return n, err
		case eof && n < len(p), k == 0:
			return n, io.EOF
		}
	}
	return n, nil
}

func (c *pastContent) read(p []byte, off int64) (n int, eof bool, err error) {
	err = do(c.ctx, &c.d.ref, schema.Dir_readPast, func(q schema.Dir_readPast_Params, _ *vat.Caps) error {
		q.SetOffset(uint64(off))
		q.SetLength(uint32(len(p)))
		if err := q.SetPath(c.path); err != nil {
			return err
		}
		return q.SetVersion(c.v[:])
	}, func(r schema.Dir_readPast_Results, _ *vat.Caps) error {
		b, err := r.Data()
		if err == nil && len(b) > len(p) {
			err = vfs.Errorf(vfs.Corrupt, "the host answered more than it was asked for")
		}
		n, eof = copy(p, b), r.Eof()
		c.size = int64(r.SizeBytes())
		return err
	})
	return n, eof, err
}

// Turn returns the same directory; what is changed through it belongs to the turn with this name, for history.
func (d *Dir) Turn(name string) *Dir {
	return newDir(derived(d.open(), d.cap, schema.Dir_turn, func(p schema.Dir_turn_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, schema.Dir_turn_Results_dir))
}
