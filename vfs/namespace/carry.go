package namespace

import (
	"cmp"
	"context"
	"crypto/sha256"
	stdhash "hash"
	"io"
	"slices"

	"capd/vfs"
	"capd/vfs/membrane"
)

// maxCarried is how many nodes one move between trees may have.
const maxCarried = 1 << 16

// carryEnd is the source or the target of a move between trees.
type carryEnd struct {
	dir     vfs.Dir
	name    string
	noLinks bool // the tree refuses links
}

// carry moves the node at src, in one tree, to dst in another, with everything below
// it. It copies all of it first: each file is staged, compared with its version and put
// in place at once. Then it checks that the source is still what was copied. Then it
// removes the source, deepest first, and each file only while it still has that
// version. A crash at any moment leaves every file whole in at least one place.
// Executable bits and links are kept, times are not.
//
// A failure before the first removal leaves the source as it was, and removes what was
// placed in the target if nobody changed it. After a revoke it is not removed, since
// nothing may change then. Once removal has begun, the end of ctx no longer matters.
// What somebody added to a directory, or changed, stays at the source; the answer is
// then notEmpty or conflict, and the target is whole.
//
// It answers limit for more than maxCarried nodes. It answers denied for a directory in
// which policy hides something. It answers exists when the target exists, unless to
// names the target's version and the source has another version: two mounts may show
// one store, and then a target with the same content may be the source itself.
func carry(ctx context.Context, src, dst carryEnd, from, to vfs.If) (err error) {
	if err := membrane.MayMove(ctx, src.dir, src.name, dst.dir, dst.name, to); err != nil {
		return err
	}
	c := &carrier{ctx: ctx, src: src, dst: dst}
	defer c.close()
	if err := c.plan(from, to); err != nil {
		return err
	}
	var sync func() error
	c.ctx, sync = vfs.SyncTogether(ctx)
	defer func() { err = cmp.Or(err, sync()) }()
	late := *c
	late.ctx = context.WithoutCancel(c.ctx)
	err = c.place(src.dir, dst.dir, c.top, dst.name)
	if err == nil {
		err = c.unchanged(src.dir, c.top)
	}
	if synced := sync(); err == nil { // before anything is removed
		err = synced
	}
	if err != nil {
		late.undo(dst.dir, c.top, dst.name)
		return err
	}
	if err = late.remove(src.dir, c.top); err != nil && late.unchanged(src.dir, c.top) == nil {
		late.undo(dst.dir, c.top, dst.name)
	}
	return err
}

// carrier is one such move.
type carrier struct {
	ctx      context.Context
	src, dst carryEnd
	top      *carriedNode
	count    int
	want     vfs.If   // condition on the target of top
	over     replaced // what top replaces
}

// carriedNode is one node that is moved.
type carriedNode struct {
	name   string // at the source
	kind   vfs.Kind
	is     vfs.Version // of a file that was placed or will be
	exec   bool
	text   string // a link's target
	holds  []*carriedNode
	placed bool // or may have been placed
}

// replaced is the file that was at the target.
type replaced struct {
	content vfs.Content // nil if there was none
	exec    bool
}

func (c *carrier) close() {
	if c.over.content != nil {
		c.over.content.Close()
	}
}

var errAltered = vfs.Errorf(vfs.Conflict, "it changed while it was being moved; look at both places and try again")

// place copies l, which is in src, to dst.
func (c *carrier) place(src, dst vfs.Dir, l *carriedNode, name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	var made vfs.Dir
	l.placed = true
	err := func() (err error) {
		switch l.kind {
		case vfs.DirKind:
			made, err = dst.Mkdir(c.ctx, name)
			return err
		case vfs.LinkKind:
			return vfs.Symlink(c.ctx, dst, name, l.text)
		}
		return c.placeFile(src, dst, l, name)
	}()
	if err != nil {
		if code := vfs.CodeOf(err); code.Policy() || code == vfs.Exists || code == vfs.Conflict && err != errAltered {
			l.placed = false // not by this move
		}
		return err
	}
	if made == nil {
		return nil
	}
	defer made.Close()
	from, err := c.sub(src, l)
	if err != nil {
		return err
	}
	defer from.Close()
	for _, held := range l.holds {
		if err := c.place(from, made, held, held.name); err != nil {
			return err
		}
	}
	return nil
}

// sub opens the directory l in d.
func (c *carrier) sub(d vfs.Dir, l *carriedNode) (vfs.Dir, error) {
	n, err := d.Lookup(c.ctx, l.name)
	if err != nil {
		return nil, err
	}
	if sub, ok := n.(vfs.Dir); ok && l.kind == vfs.DirKind {
		return sub, nil
	}
	n.Close()
	return nil, errAltered
}

func (c *carrier) placeFile(src, dst vfs.Dir, l *carriedNode, name string) error {
	n, err := src.Lookup(c.ctx, l.name)
	if err != nil {
		return err
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return errAltered
	}
	info, err := f.Stat(c.ctx)
	if err != nil {
		return err
	}
	is, err := vfs.VersionOf(c.ctx, f)
	switch {
	case err != nil:
		return err
	case !l.is.IsZero() && l.is != is:
		return errAltered
	}
	l.is, l.exec = is, info.Exec
	content, err := vfs.Open(c.ctx, f)
	if err != nil {
		return err
	}
	defer content.Close()
	want := vfs.If{Absent: true}
	if l == c.top {
		want = c.want
	}
	var r *verified
	put := func(put func(io.Reader) (vfs.Version, error)) (vfs.Version, error) {
		r = &verified{r: io.NewSectionReader(content, 0, content.Size()), h: sha256.New(), want: is}
		return put(r)
	}
	got, err := put(func(r io.Reader) (vfs.Version, error) { return vfs.Install(c.ctx, dst, name, r, l.exec, want) })
	if vfs.CodeOf(err) == vfs.Unsupported && !l.exec {
		got, err = put(func(r io.Reader) (vfs.Version, error) { return dst.Replace(c.ctx, name, r, want) })
	}
	switch code := vfs.CodeOf(err); {
	case r.differs || err == nil && got != is:
		return errAltered
	case want.Absent && (code == vfs.Conflict || code == vfs.IsDir || code == vfs.NotRegular):
		return vfs.Exists
	}
	return err
}

// verified is a content being copied. It ends in errAltered unless it has the expected
// version.
type verified struct {
	r       io.Reader
	h       stdhash.Hash
	want    vfs.Version
	differs bool
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.h.Write(p[:n])
	if err == io.EOF && vfs.Version(v.h.Sum(nil)) != v.want {
		v.differs = true
		return n, errAltered
	}
	return n, err
}

// unchanged returns nil when l, in src, is still what was copied.
func (c *carrier) unchanged(src vfs.Dir, l *carriedNode) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	n, err := src.Lookup(c.ctx, l.name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return errAltered
	}
	if err != nil {
		return err
	}
	defer n.Close()
	if vfs.KindOf(n) != l.kind {
		return errAltered
	}
	same := true
	switch n := n.(type) {
	case vfs.File:
		var is vfs.Version
		is, err = vfs.VersionOf(c.ctx, n)
		same = is == l.is
	case vfs.Link:
		var text string
		text, err = n.Target(c.ctx)
		same = text == l.text
	case vfs.Dir:
		var names []string
		names, err = c.names(n)
		same = slices.EqualFunc(names, l.holds, func(name string, held *carriedNode) bool { return name == held.name })
		for i := 0; err == nil && same && i < len(l.holds); i++ {
			err = c.unchanged(n, l.holds[i])
		}
	}
	if err == nil && !same {
		err = errAltered
	}
	return err
}

// remove removes l from src, with what it held when it was copied.
func (c *carrier) remove(src vfs.Dir, l *carriedNode) error {
	if l.kind == vfs.FileKind {
		return src.Remove(c.ctx, l.name, vfs.If{Is: l.is})
	}
	if l.kind == vfs.LinkKind {
		if err := c.unchanged(src, l); err != nil {
			return err
		}
		return src.Remove(c.ctx, l.name, vfs.If{})
	}
	d, err := c.sub(src, l)
	if err != nil {
		return err
	}
	defer d.Close()
	for _, held := range slices.Backward(l.holds) {
		if err := c.remove(d, held); err != nil {
			return err
		}
	}
	return src.Remove(c.ctx, l.name, vfs.If{})
}

// undo removes from dst what was placed for l, if nobody changed it since.
func (c *carrier) undo(dst vfs.Dir, l *carriedNode, name string) {
	if !l.placed {
		return
	}
	switch l.kind {
	case vfs.FileKind:
		if l == c.top && c.over.content != nil {
			content := func() io.Reader { return io.NewSectionReader(c.over.content, 0, c.over.content.Size()) }
			_, err := vfs.Install(c.ctx, dst, name, content(), c.over.exec, vfs.If{Is: l.is})
			if vfs.CodeOf(err) == vfs.Unsupported {
				_, _ = dst.Replace(c.ctx, name, content(), vfs.If{Is: l.is})
			}
			return
		}
		if !l.is.IsZero() {
			_ = dst.Remove(c.ctx, name, vfs.If{Is: l.is})
		}
	case vfs.LinkKind:
		if c.unchanged(dst, &carriedNode{name: name, kind: vfs.LinkKind, text: l.text}) == nil {
			_ = dst.Remove(c.ctx, name, vfs.If{})
		}
	case vfs.DirKind:
		if d, err := c.sub(dst, &carriedNode{name: name, kind: vfs.DirKind}); err == nil {
			for _, held := range slices.Backward(l.holds) {
				c.undo(d, held, held.name)
			}
			d.Close()
			_ = dst.Remove(c.ctx, name, vfs.If{})
		}
	}
}
