package change

import (
	"context"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/membrane"
)

// MaxCopied is how many files, directories and links one copy may have.
const MaxCopied = 1 << 16

// Copied is what a copy has copied: files, directories and links, and the bytes of the files.
type Copied struct{ Entries, Bytes int64 }

// Copier is a Dir that copies in its own way, such as one that another host serves. It answers entries and bytes as in [Copied], and
// crossDevice for a dst that it cannot copy to.
type Copier interface {
	vfs.Dir
	CopyTo(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) (entries, bytes int64, err error)
}

// Copy copies the file or the directory called name in src, with everything in it, to newName in dst: all of it or nothing. from and to are
// conditions as in [vfs.Dir].Rename.
// Names that policy withholds are left out. Executable bits are kept, times are not. Guards of both ends decide about each file.
//
// A file may replace a file, in one step: if to says Over, whatever its version is. If it is the same already, nothing is
// changed. A directory is only copied to where nothing is, and appears at once if its store is a [vfs.DirStager]; see [copier.Duplicate].
// It answers outside for a link that leads out of the directory, unsupported for a link that is to be copied by itself, limit for more than MaxCopied
// nodes, exists, conflict, and the errors of reads and changes, with a path below what is copied. done is
// what was copied.
func Copy(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, from, to vfs.If) (done Copied, err error) {
	if c, ok := src.(Copier); ok {
		done.Entries, done.Bytes, err = c.CopyTo(ctx, name, dst, newName, from, to)
		return done, err
	}
	n, err := src.Lookup(ctx, name)
	if err != nil {
		return done, err
	}
	defer n.Close()
	dir, isDir := n.(vfs.Dir)
	kind := vfs.KindOf(n)
	switch {
	case kind == vfs.LinkKind:
		return done, vfs.Errorf(vfs.Unsupported, "a link is not copied by itself; name what it leads to, or the directory that holds both")
	case isDir && !to.Is.IsZero():
		return done, vfs.Errorf(vfs.Invalid, "only a file has a version; drop the condition")
	}
	err = membrane.Copying(ctx, src, name, dst, newName, to, kind, func(src, dst vfs.Dir) error {
		held := membrane.CallBytesOf(ctx)
		defer held.End()
		o := copier.Options{
			Limits: copier.Limits{Entries: MaxCopied}, Workers: 1, Hold: lessAtOnce(held.Take),
			Progress: func(p copier.Progress) { done = Copied{p.Entries(), p.Bytes} },
			Listed:   func(ctx context.Context, _ vfs.Dir, _ string) error { return meter.Yield(ctx) },
		}
		from, to := copier.Spot{Dir: src, Name: name, If: from}, copier.Spot{Dir: dst, Name: newName, If: to}
		if isDir {
			ctx, to.If = vfs.Unasked(ctx), vfs.If{}
			o.Link = copier.Within(dir)
			o.Planned = func(ctx context.Context, p *copier.Plan, make func(context.Context) error) error {
				return asOne(ctx, to, p, make)
			}
		} else if err := replaceable(ctx, to); err != nil {
			return err
		}
		return copier.Duplicate(ctx, from, to, o)
	})
	if err != nil {
		return Copied{}, err
	}
	return done, nil
}

// asOne makes p, the copy of a directory, as one change.
func asOne(ctx context.Context, to copier.Spot, p *copier.Plan, make func(context.Context) error) error {
	n, err := to.Dir.Lookup(ctx, to.Name)
	if err == nil {
		n.Close()
		return vfs.Exists
	}
	if vfs.CodeOf(err) != vfs.NotFound {
		return err
	}
	var ops []membrane.Op
	for _, part := range p.Parts() {
		op := membrane.Op{Kind: membrane.OpReplace, Path: to.Name}
		if part.Path != "" {
			op.Path = vfs.Join(to.Name, part.Path)
		}
		switch part.Kind {
		case vfs.DirKind:
			op.Kind = membrane.OpMkdir
		case vfs.LinkKind:
			op.Kind = membrane.OpSymlink
		}
		ops = append(ops, op)
	}
	parts := func(pinned bool) ([]vfs.Part, error) {
		if pinned {
			if err := p.Pin(ctx); err != nil {
				return nil, err
			}
		}
		return p.Parts(), nil
	}
	return membrane.Copied(ctx, to.Dir, to.Name, ops, parts, make)
}

// replaceable returns why a file cannot be copied to where it is to go, whatever its version is.
func replaceable(ctx context.Context, to copier.Spot) error {
	if !to.If.Over && to.If.Is.IsZero() {
		return nil
	}
	n, err := to.Dir.Lookup(ctx, to.Name)
	if err != nil {
		return nil // the copy itself says so
	}
	defer n.Close()
	switch n.(type) {
	case vfs.Dir:
		return vfs.IsDir
	case vfs.Link:
		return vfs.Errorf(vfs.NotRegular, "a copy replaces only a file, and this is a link; remove it first")
	}
	return nil
}

// lessAtOnce is take for a copy: a smaller one may have room.
func lessAtOnce(take func(int64) error) func(int64) error {
	return func(n int64) error {
		err := take(n)
		if vfs.CodeOf(err) == vfs.Limit {
			err = vfs.Errorf(vfs.Limit, "%s, or copy a smaller part", vfs.Message(err))
		}
		return err
	}
}
