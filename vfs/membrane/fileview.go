package membrane

import (
	"context"
	"io"
	"sync/atomic"

	"capd/vfs"
)

// fileView is a file behind a membrane.
type fileView struct {
	view
	file  vfs.File
	wrote atomic.Bool // in place, since it was last synced
}

// rest says that v was synced, or is closed, if it was written in place.
func (v *fileView) rest() {
	if rested := v.guards.rested; rested != nil && v.wrote.Swap(false) {
		rested(v.base.meter, v.path)
	}
}

// Close implements [vfs.Node].
func (v *fileView) Close() error {
	v.rest()
	return v.view.Close()
}

func (v *fileView) ReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if v.guards.bare(v.standing()) { // the hot path, without closures
		if err := v.mayRead(ctx); err != nil {
			return v.askedReadAt(ctx, p, off, err)
		}
		n, err = v.readAt(ctx, p, off)
		if late := v.may(ctx, noRead); late != nil {
			return 0, late
		}
		if err == nil || err == io.EOF {
			v.note(OpRead)
		}
		return n, err
	}
	return v.guardedReadAt(ctx, p, off)
}

// mayRead is may for the content of the file.
func (v *fileView) mayRead(ctx context.Context) error {
	if err := v.may(ctx, noRead); err != nil {
		return err
	}
	return v.single(ctx, noRead)
}

// guardedReadAt is ReadAt where a guard stands around reads.
func (v *fileView) guardedReadAt(ctx context.Context, p []byte, off int64) (n int, err error) {
	if err := v.mayRead(ctx); err != nil {
		return v.askedReadAt(ctx, p, off, err)
	}
	err = v.look(ctx, OpRead, func(ctx context.Context) error {
		n, err = v.file.ReadAt(ctx, p, off)
		return err
	})
	if err != nil && err != io.EOF {
		return 0, err // withheld, whether it was read or not
	}
	v.note(OpRead)
	return n, err
}

// readAt reads inside the bulkhead.
func (v *fileView) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	in, err := v.guards.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer in.exit()
	return v.file.ReadAt(ctx, p, off)
}

func (v *fileView) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (n int, err error) {
	w, err := v.writing(ctx, OpWrite, c, vfs.Bound{Offset: off, Data: p})
	if err != nil {
		return 0, err
	}
	is := w.is
	err = w.write(func(ctx context.Context) error {
		n, err = v.file.WriteAt(ctx, p, off, is)
		return err
	})
	return n, err
}

func (v *fileView) Truncate(ctx context.Context, size int64, c vfs.If) error {
	w, err := v.writing(ctx, OpTruncate, c, vfs.Bound{Offset: size})
	if err != nil {
		return err
	}
	is := w.is
	return w.write(func(ctx context.Context) error { return v.file.Truncate(ctx, size, is) })
}

// Append implements [vfs.Appender].
func (v *fileView) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	w, err := v.writing(ctx, OpAppend, c, vfs.Bound{Data: p})
	if err != nil {
		return 0, err
	}
	is := w.is
	err = w.write(func(ctx context.Context) error {
		off, err = vfs.Append(ctx, v.file, p, is)
		return err
	})
	return off, err
}

// writing is a change of a file in place that nothing refuses.
type writing struct {
	ctx context.Context
	op  Op
	t   target
	v   *fileView
	is  vfs.If // the condition, with what an approval adds to it
}

// writing begins a change in place under the condition c. b is what it writes.
func (v *fileView) writing(ctx context.Context, kind OpKind, c vfs.If, b vfs.Bound) (w writing, err error) {
	t := target{view: &v.view, path: v.path, rules: v.standing(), need: kind.need() | reads(c)}
	if err := t.refused(ctx); err != nil {
		return w, err
	}
	if err := v.bounded(ctx, t, b.Offset+int64(len(b.Data)), kind == OpAppend); err != nil {
		return w, err
	}
	if c, err = t.compares(ctx, c, v.Version); err != nil {
		return w, err
	}
	w = writing{ctx, Op{Kind: kind, Path: v.path, Offset: b.Offset, Length: int64(len(b.Data))}, t, v, c}
	w.ctx, w.is, err = v.replacing(ctx, w.op, t, c, b)
	return w, err
}

func (w writing) write(do func(context.Context) error) error {
	if reads(w.is) != 0 {
		do = whileBound(do, w.t)
	}
	err := w.t.view.change(w.ctx, w.op, nil, []target{w.t}, do)
	if err == nil {
		w.v.wrote.Store(true)
	}
	return err
}

// Sync changes nothing visible, so either the right to write or the right to read is
// enough.
func (v *fileView) Sync(ctx context.Context) error {
	need := noRead | noWrite
	if v.mode()&need != need {
		need = 0
	}
	if err := v.may(ctx, need); err != nil {
		return err
	}
	err := v.guards.around(ctx, Op{Kind: OpSync, Path: v.path}, []*rules{v.standing()}, v.file.Sync)
	if err == nil {
		v.rest()
	}
	return err
}

// Replace implements [vfs.File].
func (v *fileView) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	t := target{view: &v.view, path: v.path, rules: v.standing(), need: OpReplace.need() | reads(c)}
	if err := t.refused(ctx); err != nil {
		return vfs.Version{}, err
	}
	if err := v.bounded(ctx, t, 0, false); err != nil {
		return vfs.Version{}, err
	}
	c, err := t.compares(ctx, c, v.Version)
	if err != nil {
		return vfs.Version{}, err
	}
	ctx, is, err := v.replacing(ctx, Op{Kind: OpReplace, Path: v.path}, t, c, vfs.Bound{})
	if err != nil {
		return vfs.Version{}, err
	}
	var info vfs.Info
	err = v.guards.within(ctx, func(ctx context.Context) (err error) { // a File never creates
		info, err = v.file.Stat(ctx)
		return err
	})
	if err != nil {
		return vfs.Version{}, err
	}
	staged := &stagedReader{r: r, room: v.meters().room(func() int64 { return info.Size }), bounds: t.rules.bounds(t.need)}
	return t.replace(ctx, staged, func(ctx context.Context) (vfs.Version, error) {
		return v.file.Replace(ctx, staged, is)
	})
}

// Version implements [vfs.Versioner].
func (v *fileView) Version(ctx context.Context) (version vfs.Version, err error) {
	if err := v.mayRead(ctx); err != nil {
		return v.askedVersion(ctx, err)
	}
	err = v.look(ctx, OpRead, whileBound(func(ctx context.Context) error {
		version, err = vfs.VersionOf(ctx, v.file)
		return err
	}, target{view: &v.view, path: v.path, rules: v.standing()}))
	if err != nil {
		return vfs.Version{}, err
	}
	v.note(OpRead)
	return version, nil
}

// Open implements [vfs.Opener].
func (v *fileView) Open(ctx context.Context) (content vfs.Content, err error) {
	if err := v.mayRead(ctx); v.asksFirst(ctx, err) {
		c, err := v.asked(ctx)
		if err != nil {
			return nil, err
		}
		return c, nil
	} else if err != nil {
		return nil, err
	}
	end, err := v.meters().stream(ctx)
	if err != nil {
		return nil, err
	}
	err = v.look(ctx, OpRead, func(ctx context.Context) error {
		inner, err := vfs.Open(ctx, v.file)
		if err == nil {
			v.base.retain()
			content = &contentView{ctx: ctx, inner: inner, v: v, node: v.view.inner.retain(), end: end}
		}
		return err
	})
	switch {
	case err == nil:
		v.note(OpRead)
		return content, nil
	case content != nil:
		content.Close()
	default:
		end()
	}
	return nil, err
}

// linkView is a link behind a membrane.
type linkView struct {
	view
	link vfs.Link
}

func (v *linkView) Target(ctx context.Context) (string, error) {
	text, err := answer(ctx, &v.view, OpTarget, v.link.Target)
	if err == nil {
		err = v.standing().bounds(noRights).allows(v.path, text)
	}
	if err != nil {
		return "", err
	}
	return text, nil
}
