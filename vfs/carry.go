package vfs

import (
	"context"
	"crypto/sha256"
	stdhash "hash"
	"io"
	"slices"
)

// maxCarried is how many nodes are moved from tree to tree at once.
const maxCarried = 1 << 16

// end is one end of a move between trees.
type end struct {
	dir     *dirView
	name    string
	noLinks bool // the tree refuses links
}

// carry moves what is at src, in one tree, to dst in another, and what it holds. It
// copies all of it first, each file staged, compared with its version and put in
// place at once; looks whether the source is still what was copied; and then removes
// the source, deepest first, each file only while it is that. So a crash, at any
// moment, leaves every file whole in one place at least. Executable bits and links
// are kept, times are not.
//
// What fails before the first removal leaves the source as it was, and takes back
// what was placed as far as it is still that; a revoke keeps it from that, since
// nothing changes after one. Once the source is being removed, ctx is no matter any
// more, and what somebody added to a directory or changed stays where it is: the
// answer is notEmpty or conflict, and the target is whole.
//
// It answers limit for more than maxCarried nodes, exists for a target that is there
// (unless to names its version, and it is another than the source's: two mounts may
// be one store, in which that would be the source itself), and denied for a
// directory of which policy hides something.
func carry(ctx context.Context, src, dst end, from, to If) (err error) {
	_, err = src.dir.end(ctx, src.name, CheckName, noRead|noWrite, true)
	_, err2 := dst.dir.end(ctx, dst.name, CheckNewName, noWrite|to.reads(), true)
	if err := foremost(err, err2); err != nil {
		return err
	}
	c := &carrier{ctx: ctx, src: src, dst: dst}
	defer c.close()
	if err := c.plan(from, to); err != nil {
		return err
	}
	var sync func() error
	c.ctx, sync = SyncTogether(ctx)
	defer func() { err = first(err, sync()) }()
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

// carrier is such a move under way.
type carrier struct {
	ctx      context.Context
	src, dst end
	top      *load
	count    int
	want     If  // on the target of top
	over     old // what top takes the place of
}

// load is a node that is moved.
type load struct {
	name   string // at the source
	kind   Kind
	is     Version // of a file, once it was placed or is to be
	exec   bool
	text   string // of a link
	holds  []*load
	placed bool // or perhaps
}

// old is the file that was at the target.
type old struct {
	content Content // nil for none
	exec    bool
}

func (c *carrier) close() {
	if c.over.content != nil {
		c.over.content.Close()
	}
}

var errAltered = Errorf(Conflict, "it changed while it was being moved; look at both places and try again")

// place copies l, which is in src, to dst.
func (c *carrier) place(src, dst *dirView, l *load, name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	var made *dirView
	l.placed = true
	err := func() (err error) {
		switch l.kind {
		case DirKind:
			var d Dir
			if d, err = dst.Mkdir(c.ctx, name); err == nil {
				made = d.(*dirView)
			}
			return err
		case LinkKind:
			return Symlink(c.ctx, dst, name, l.text)
		}
		return c.placeFile(src, dst, l, name)
	}()
	if err != nil {
		if code := CodeOf(err); code.Policy() || code == Exists || code == Conflict && err != errAltered {
			l.placed = false // by us
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

// sub opens the directory l, which is in d.
func (c *carrier) sub(d *dirView, l *load) (*dirView, error) {
	n, err := d.Lookup(c.ctx, l.name)
	if err != nil {
		return nil, err
	}
	if sub, ok := n.(*dirView); ok && l.kind == DirKind {
		return sub, nil
	}
	n.Close()
	return nil, errAltered
}

func (c *carrier) placeFile(src, dst *dirView, l *load, name string) error {
	n, err := src.Lookup(c.ctx, l.name)
	if err != nil {
		return err
	}
	defer n.Close()
	f, ok := n.(File)
	if !ok {
		return errAltered
	}
	info, err := f.Stat(c.ctx)
	if err != nil {
		return err
	}
	is, err := VersionOf(c.ctx, f)
	switch {
	case err != nil:
		return err
	case !l.is.IsZero() && l.is != is:
		return errAltered
	}
	l.is, l.exec = is, info.Exec
	content, err := Open(c.ctx, f)
	if err != nil {
		return err
	}
	defer content.Close()
	want := If{Absent: true}
	if l == c.top {
		want = c.want
	}
	var r *verified
	put := func(put func(io.Reader) (Version, error)) (Version, error) {
		r = &verified{r: io.NewSectionReader(content, 0, content.Size()), h: sha256.New(), want: is}
		return put(r)
	}
	got, err := put(func(r io.Reader) (Version, error) { return Install(c.ctx, dst, name, r, l.exec, want) })
	if CodeOf(err) == Unsupported && !l.exec {
		got, err = put(func(r io.Reader) (Version, error) { return dst.Replace(c.ctx, name, r, want) })
	}
	switch code := CodeOf(err); {
	case r.differs || err == nil && got != is:
		return errAltered
	case want.Absent && (code == Conflict || code == IsDir || code == NotRegular):
		return Exists
	}
	return err
}

// verified is a content on its way that ends in errAltered unless it is what it was
// taken for.
type verified struct {
	r       io.Reader
	h       stdhash.Hash
	want    Version
	differs bool
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.r.Read(p)
	v.h.Write(p[:n])
	if err == io.EOF && Version(v.h.Sum(nil)) != v.want {
		v.differs = true
		return n, errAltered
	}
	return n, err
}

// unchanged answers nil when l, in src, is as it was copied.
func (c *carrier) unchanged(src *dirView, l *load) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	n, err := src.Lookup(c.ctx, l.name)
	if CodeOf(err) == NotFound {
		return errAltered
	}
	if err != nil {
		return err
	}
	defer n.Close()
	if KindOf(n) != l.kind {
		return errAltered
	}
	same := true
	switch n := n.(type) {
	case File:
		var is Version
		is, err = VersionOf(c.ctx, n)
		same = is == l.is
	case Link:
		var text string
		text, err = n.Target(c.ctx)
		same = text == l.text
	case *dirView:
		var names []string
		names, err = c.names(n)
		same = slices.EqualFunc(names, l.holds, func(name string, held *load) bool { return name == held.name })
		for i := 0; err == nil && same && i < len(l.holds); i++ {
			err = c.unchanged(n, l.holds[i])
		}
	}
	if err == nil && !same {
		err = errAltered
	}
	return err
}

// remove removes l, with what it held when it was copied, from src.
func (c *carrier) remove(src *dirView, l *load) error {
	if l.kind == FileKind {
		return src.Remove(c.ctx, l.name, If{Is: l.is})
	}
	if l.kind == LinkKind {
		if err := c.unchanged(src, l); err != nil {
			return err
		}
		return src.Remove(c.ctx, l.name, If{})
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
	return src.Remove(c.ctx, l.name, If{})
}

// undo takes back what was placed in dst for l, as far as it is that still.
func (c *carrier) undo(dst *dirView, l *load, name string) {
	if !l.placed {
		return
	}
	switch l.kind {
	case FileKind:
		if l == c.top && c.over.content != nil {
			content := func() io.Reader { return io.NewSectionReader(c.over.content, 0, c.over.content.Size()) }
			_, err := Install(c.ctx, dst, name, content(), c.over.exec, If{Is: l.is})
			if CodeOf(err) == Unsupported {
				_, _ = dst.Replace(c.ctx, name, content(), If{Is: l.is})
			}
			return
		}
		if !l.is.IsZero() {
			_ = dst.Remove(c.ctx, name, If{Is: l.is})
		}
	case LinkKind:
		if c.unchanged(dst, &load{name: name, kind: LinkKind, text: l.text}) == nil {
			_ = dst.Remove(c.ctx, name, If{})
		}
	case DirKind:
		if d, err := c.sub(dst, &load{name: name, kind: DirKind}); err == nil {
			for _, held := range slices.Backward(l.holds) {
				c.undo(d, held, held.name)
			}
			d.Close()
			_ = dst.Remove(c.ctx, name, If{})
		}
	}
}
