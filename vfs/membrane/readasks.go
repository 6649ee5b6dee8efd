package membrane

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"sync"

	"capd/meter"
	"capd/vfs"
)

// MaxAskedRead is the size, in bytes, of the largest file that can be read where the policy asks before reads. Its content is
// kept in memory, so that what is read is what was approved.
const MaxAskedRead = 4 << 20

// AskedRead is a read that needs an approval.
type AskedRead struct {
	Path    string
	Version vfs.Version // of what is to be read; zero before that is known: could anybody approve?
	Size    int64       // of that version, in bytes
	Why     string      // "rule capd.yaml:31:5"
	By      *meter.Meter

	// OnRevoke calls f when the right to read is taken back; see the function OnRevoke.
	OnRevoke func(f func(error)) (stop func())
}

// asksFirst reports whether err, which mayRead has returned, says that reading v needs an approval that can be asked for.
func (v *fileView) asksFirst(ctx context.Context, err error) bool {
	return v.guards.askRead != nil && vfs.CodeOf(err) == vfs.AskDenied && !vfs.CallOf(ctx).Unasked
}

// asked returns the content of v as it is now, when somebody has approved that it is read. mayRead has answered that a rule asks.
func (v *fileView) asked(ctx context.Context) (c *askedContent, err error) {
	if vfs.IsTrying(ctx) {
		return nil, vfs.ErrWouldBlock
	}
	if err := v.single(ctx, noRead); err != nil {
		return nil, err
	}
	r := v.standing()
	ask := AskedRead{Path: v.path, Why: "rule " + r.judge.Why(r.judge.Judge(Read)).Source, By: v.base.meter}
	ask.OnRevoke = func(f func(error)) (stop func()) { return OnRevoke(v, f) }
	if err := v.guards.askRead(ctx, ask); err != nil {
		return nil, err
	}
	if c, err = v.snapshot(ctx); err != nil {
		return nil, err
	}
	ask.Version, ask.Size = c.version, c.Size()
	if err := cmp.Or(v.guards.askRead(ctx, ask), c.may()); err != nil {
		c.Close()
		return nil, err
	}
	v.note(OpRead)
	return c, nil
}

// askedReadAt is ReadAt after mayRead has returned err.
func (v *fileView) askedReadAt(ctx context.Context, p []byte, off int64, err error) (int, error) {
	if !v.asksFirst(ctx, err) {
		return 0, err
	}
	c, err := v.asked(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return c.ReadAt(p, off)
}

// askedVersion is Version after mayRead has returned err.
func (v *fileView) askedVersion(ctx context.Context, err error) (vfs.Version, error) {
	if !v.asksFirst(ctx, err) {
		return vfs.Version{}, err
	}
	c, err := v.asked(ctx)
	if err != nil {
		return vfs.Version{}, err
	}
	defer c.Close()
	return c.version, nil
}

// snapshot reads the whole of v.
func (v *fileView) snapshot(ctx context.Context) (*askedContent, error) {
	end, err := v.meters().stream(ctx)
	if err != nil {
		return nil, err
	}
	c := &askedContent{ctx: ctx, v: v, end: end}
	var text bytes.Buffer
	err = v.guards.around(ctx, Op{Kind: OpRead, Path: v.path}, []*rules{v.standing()}, func(ctx context.Context) error {
		inner, err := vfs.Open(ctx, v.file)
		if err != nil {
			return err
		}
		defer inner.Close()
		if inner.Size() > MaxAskedRead {
			return errLongRead
		}
		if c.unstage, err = v.meters().stage(inner.Size(), nil); err != nil {
			return err
		}
		text.Grow(int(inner.Size()))
		_, err = text.ReadFrom(io.NewSectionReader(inner, 0, inner.Size()))
		return err
	})
	if err == nil {
		c.text = bytes.NewReader(text.Bytes())
		c.version, _, err = vfs.Hash(ctx, plain{c.text})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	v.base.retain()
	c.node = v.inner.retain()
	return c, nil
}

var errLongRead = vfs.Errorf(vfs.AskDenied, "a rule of the host asks before a read here, and a file of more than %d MiB cannot be asked about", MaxAskedRead>>20)

// plain is a content in memory.
type plain struct{ *bytes.Reader }

func (plain) Close() error  { return nil }
func (p plain) Size() int64 { return p.Reader.Size() }

// askedContent is a content that may be read after an approval.
type askedContent struct {
	text    *bytes.Reader // not embedded: its other methods ask nobody
	ctx     context.Context
	v       *fileView
	version vfs.Version
	node    *shared // of v, which may be closed; nil until it is retained
	end     func()
	unstage func()
	once    sync.Once
}

// ReadAt implements [vfs.Content].
func (c *askedContent) ReadAt(p []byte, off int64) (int, error) {
	if err := c.may(); err != nil {
		return 0, err
	}
	return c.text.ReadAt(p, off)
}

// may checks the rights of the file, closed or not. The policy may ask, but not deny.
func (c *askedContent) may() error {
	m := c.v.mode()
	err := m.refuse(noRead)
	if err != nil && heldBy(c.ctx, c.v.bind().gate) {
		err = (m &^ heldModes).refuse(noRead)
	}
	return cmp.Or(err, c.v.standing().refuse(noRead, Denies))
}

// Size implements [vfs.Content].
func (c *askedContent) Size() int64 { return c.text.Size() }

// Close implements [vfs.Content].
func (c *askedContent) Close() error {
	c.once.Do(func() {
		if c.unstage != nil {
			c.unstage()
		}
		if c.node != nil {
			c.node.release()
			c.v.base.Release()
		}
		c.end()
	})
	return nil
}
