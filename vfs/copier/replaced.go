package copier

import (
	"cmp"
	"context"
	"io"

	"capd/vfs"
)

// replaced is what was at the target.
type replaced struct {
	kind    vfs.Kind    // Other if there was nothing
	content vfs.Content // of a file
	exec    bool        // of a file
	target  string      // of a link
	first   bool        // it is removed before anything is made
	gone    bool        // it was removed
}

// replaces notes what n will replace. f is n if that is a file, and nil otherwise.
func (t *transfer) replaces(ctx context.Context, n vfs.Node, f vfs.File) error {
	there, err := t.to.Dir.Lookup(ctx, t.to.Name)
	if vfs.CodeOf(err) == vfs.NotFound {
		err = t.to.If.Check(false, vfs.Version{})
		t.to.If = vfs.If{Absent: true}
		return err
	}
	if err != nil {
		return err
	}
	defer there.Close()
	if err := t.to.If.Displaces(vfs.KindOf(there), vfs.KindOf(n)); err != nil {
		return err
	}
	t.over.kind, t.over.first = vfs.KindOf(there), vfs.KindOf(there) != vfs.FileKind || f == nil
	switch there := there.(type) {
	case vfs.File:
		return t.replacesFile(ctx, there, f)
	case vfs.Link:
		t.over.target, err = there.Target(ctx)
	case vfs.Dir:
		some, failed := vfs.Any(ctx, there, func(vfs.Entry) bool { return true })
		if err = failed; some && err == nil {
			err = vfs.NotEmpty
		}
	}
	t.to.If.NoFile = true
	return err
}

// replacesFile is replaces for the file there.
func (t *transfer) replacesFile(ctx context.Context, there, f vfs.File) error {
	is, err := vfs.VersionOf(ctx, there)
	if err = cmp.Or(err, t.to.If.Check(true, is)); err != nil {
		return err
	}
	info, err := there.Stat(ctx)
	if err != nil {
		return err
	}
	if f != nil {
		mine, err := vfs.VersionOf(ctx, f)
		if err != nil {
			return err
		}
		if mine == is && t.moves {
			return vfs.Errorf(vfs.Exists, "the same content is there already; remove one of the two")
		}
		own, err := f.Stat(ctx)
		if err != nil {
			return err
		}
		if t.there = mine == is && own.Exec == info.Exec; t.there {
			return nil
		}
	}
	t.to.If.Is, t.over.exec = is, info.Exec
	t.over.content, err = vfs.Open(ctx, there)
	return err
}

// clear removes what cannot be replaced in one step.
func (t *transfer) clear(ctx context.Context) error {
	if !t.over.first {
		return nil
	}
	err := t.to.Dir.Remove(ctx, t.to.Name, vfs.If{Is: t.to.If.Is, NoFile: t.to.If.NoFile})
	if err == nil {
		t.to.If, t.over.gone = vfs.If{Absent: true}, true
	}
	return err
}

// undo removes what was copied, if nobody changed it since, and puts back what it
// replaced.
func (t *transfer) undo(ctx context.Context) {
	if t.staged != nil {
		t.staged.Drop(ctx)
	}
	if t.over.content == nil || !t.top.placed || t.over.first {
		t.top.undo(ctx, t.to.Dir, t.to.Name)
	}
	switch {
	case t.over.first && !t.over.gone:
	case t.over.kind == vfs.LinkKind:
		_ = vfs.Symlink(ctx, t.to.Dir, t.to.Name, t.over.target)
	case t.over.kind == vfs.DirKind:
		if d, err := t.to.Dir.Mkdir(ctx, t.to.Name); err == nil {
			d.Close()
		}
	case t.over.kind == vfs.FileKind && t.over.first:
		t.restore(ctx, vfs.If{Absent: true})
	case t.over.kind == vfs.FileKind && t.top.placed:
		t.restore(ctx, vfs.If{Is: t.top.version})
	}
}

// restore puts back the file that was replaced.
func (t *transfer) restore(ctx context.Context, c vfs.If) {
	old := func() io.Reader { return io.NewSectionReader(t.over.content, 0, t.over.content.Size()) }
	_, err := vfs.Install(ctx, t.to.Dir, t.to.Name, old(), t.over.exec, c)
	if vfs.CodeOf(err) == vfs.Unsupported {
		_, _ = t.to.Dir.Replace(ctx, t.to.Name, old(), c)
	}
}
