package membrane

import (
	"context"
	"fmt"
	"io"

	"capd/vfs"
)

func (v *dirView) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return v.put(ctx, name, r, c, false, func(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
		return v.dir.Replace(ctx, name, r, c)
	})
}

// Install implements [vfs.Installer]. Guards see it as OpReplace.
func (v *dirView) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	return v.put(ctx, name, r, c, exec, func(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
		return vfs.Install(ctx, v.dir, name, r, exec, c)
	})
}

func (v *dirView) put(ctx context.Context, name string, r io.Reader, c vfs.If, exec bool, do func(context.Context, io.Reader, vfs.If) (vfs.Version, error)) (vfs.Version, error) {
	t, err := v.target(ctx, name, vfs.CheckName, OpReplace.need()|reads(c), false)
	if err != nil {
		return vfs.Version{}, err
	}
	if err := v.creatable(ctx, name); err != nil {
		return vfs.Version{}, err
	}
	if err := v.single(ctx, name, t); err != nil {
		return vfs.Version{}, err
	}
	if c, err = t.compares(ctx, c, v.version(name)); err != nil {
		return vfs.Version{}, err
	}
	ctx, is, err := v.replacing(ctx, Op{Kind: OpReplace, Path: t.path}, t, name, c, exec)
	if err != nil {
		return vfs.Version{}, err
	}
	staged := &stagedReader{r: r, room: boundless}
	if !restores(ctx) {
		staged.room, staged.bounds = v.meters().room(func() int64 { return v.size(ctx, name) }), t.rules.bounds(t.need)
	}
	return t.replace(ctx, staged, func(ctx context.Context) (vfs.Version, error) { return do(ctx, staged, is) })
}

// creatable answers invalid if there is no node called name and none may be made, before anybody is asked about it.
func (v *dirView) creatable(ctx context.Context, name string) error {
	invalid := vfs.CheckNewName(name)
	if invalid == nil || restores(ctx) || vfs.IsImmutable(v.dir) { // which answers readOnly for any name
		return nil
	}
	err := v.guards.within(vfs.Recalling(ctx), func(ctx context.Context) error {
		n, err := v.dir.Lookup(ctx, name)
		if err == nil {
			n.Close()
		}
		return err
	})
	if vfs.CodeOf(err) == vfs.NotFound {
		return invalid
	}
	return nil // Replace itself reports what is wrong
}

// size returns the size of the file called name, 0 when there is none.
func (v *dirView) size(ctx context.Context, name string) int64 {
	var info vfs.Info
	_ = v.guards.within(vfs.Recalling(ctx), func(ctx context.Context) error { // Replace itself reports what is wrong
		n, err := v.dir.Lookup(ctx, name)
		if err != nil {
			return err
		}
		defer n.Close()
		info, err = n.Stat(ctx)
		return err
	})
	return info.Size
}

// replace runs do, which replaces the file at t with what is staged. The caller has
// checked that t is not refused.
func (t target) replace(ctx context.Context, staged *stagedReader, do func(context.Context) (vfs.Version, error)) (vfs.Version, error) {
	end, err := t.view.meters().stream(ctx)
	if err != nil {
		return vfs.Version{}, err
	}
	staged.ctx, staged.t, staged.dead = ctx, t, make(chan struct{})
	if t.view.guards.bulkhead == nil || neverWaits(staged.r) && vfs.CallOf(ctx).Bound == nil {
		defer end()
		return t.put(staged, do)
	}
	// The write gives up its slot in the bulkhead while it waits for the reader, or for an approval. If it
	// gets no place again, the caller is answered busy at once, while the store removes
	// what was staged.
	type outcome struct {
		version vfs.Version
		err     error
	}
	done, gaveUp := make(chan outcome, 1), make(chan error, 1)
	staged.ctx = vfs.WithCall(ctx, vfs.CallOf(ctx).Unseen())
	staged.giveUp = func(err error) { gaveUp <- err }
	go func() {
		var o outcome
		defer func() {
			if p := recover(); p != nil { // only this write fails
				o = outcome{err: vfs.Hide(fmt.Errorf("panic in a whole-file write: %v", p))}
			}
			end()
			done <- o
		}()
		o.version, o.err = t.put(staged, do)
	}()
	select {
	case o := <-done:
		return o.version, o.err
	case err := <-gaveUp:
		return vfs.Version{}, err
	}
}

// put is replace inside the guards.
func (t target) put(staged *stagedReader, do func(context.Context) (vfs.Version, error)) (version vfs.Version, err error) {
	defer staged.end()
	defer t.watch(staged.ctx, func(error) { close(staged.dead) })()
	err = t.view.change(staged.ctx, Op{Kind: OpReplace, Path: t.path}, nil, []target{t}, whileBound(func(ctx context.Context) error {
		if b := t.view.guards.bulkhead; b != nil {
			in, err := b.enter(ctx)
			if err != nil {
				return err
			}
			staged.slot = &slot{first: in, in: in, has: true, giveUp: staged.giveUp}
			defer staged.slot.end()
			ctx = staged.slot.entered(b.noted(ctx))
		}
		version, err = do(ctx)
		return err
	}, t))
	if err != nil {
		return vfs.Version{}, err
	}
	return version, nil
}
