package namespace

import (
	"cmp"
	"context"
	"io"

	"capd/vfs"
	"capd/vfs/membrane"
)

// tree returns the directory in which the entry name may be changed.
func (p nsPlace) tree(name string) (vfs.Dir, error) {
	if p.mounted(name) != nil {
		return nil, vfs.Errorf(vfs.Busy, "something is mounted here, or below it; it cannot be changed here")
	}
	if p.dir == nil {
		return nil, cmp.Or(vfs.CheckName(name), vfs.Errorf(vfs.ReadOnly, "this directory only leads to mounts; nothing can be made in it"))
	}
	return p.dir, nil
}

// changes is tree for an entry that is to be changed. It answers taken where a mount
// is.
func (d *nsDir) changes(name string, taken vfs.Code) (nsPlace, vfs.Dir, error) {
	p, err := d.now()
	if err != nil {
		return p, nil, err
	}
	if p.mounted(name) != nil && taken != vfs.Busy {
		return p, nil, taken
	}
	dir, err := p.tree(name)
	return p, dir, err
}

func (d *nsDir) Create(ctx context.Context, name string) (vfs.File, error) {
	_, dir, err := d.changes(name, vfs.Exists)
	if err != nil {
		return nil, err
	}
	return dir.Create(ctx, name)
}

func (d *nsDir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	p, dir, err := d.changes(name, vfs.Exists)
	if err != nil {
		return nil, err
	}
	made, err := dir.Mkdir(ctx, name)
	if err != nil {
		return nil, err
	}
	return d.below(p, made, nil), nil
}

// StageDir implements [vfs.DirStager].
func (d *nsDir) StageDir(ctx context.Context, name string) (vfs.StagedDir, error) {
	p, dir, err := d.changes(name, vfs.Exists)
	if err != nil {
		return nil, err
	}
	s, err := vfs.StageDir(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	return &nsStaged{d.below(p, s, nil), s}, nil
}

// nsStaged is a directory that is made out of sight in one tree of a namespace.
type nsStaged struct {
	*nsDir
	staged vfs.StagedDir
}

// Place implements [vfs.StagedDir].
func (s *nsStaged) Place(ctx context.Context) error { return s.staged.Place(ctx) }

// Drop implements [vfs.StagedDir].
func (s *nsStaged) Drop(ctx context.Context) vfs.Effect { return s.staged.Drop(ctx) }

// Symlink implements [vfs.Symlinker].
func (d *nsDir) Symlink(ctx context.Context, name, target string) error {
	p, dir, err := d.changes(name, vfs.Exists)
	switch {
	case err != nil:
		return err
	case p.in.o.NoLinks:
		return vfs.ErrNoLinks
	}
	return vfs.Symlink(ctx, dir, name, target)
}

func (d *nsDir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	_, dir, err := d.changes(name, vfs.IsDir)
	if err != nil {
		return vfs.Version{}, err
	}
	return dir.Replace(ctx, name, r, c)
}

// Install implements [vfs.Installer].
func (d *nsDir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	_, dir, err := d.changes(name, vfs.IsDir)
	if err != nil {
		return vfs.Version{}, err
	}
	return vfs.Install(ctx, dir, name, r, exec, c)
}

func (d *nsDir) Remove(ctx context.Context, name string, c vfs.If) error {
	_, dir, err := d.changes(name, vfs.Busy)
	if err != nil {
		return err
	}
	return dir.Remove(ctx, name, c)
}

// Rename moves within a tree as that tree does, and between two trees by copying; see
// [carry].
func (d *nsDir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	src, tree, err := d.changes(name, vfs.Busy)
	if err != nil {
		return err
	}
	n, ok := dst.(*nsDir)
	if !ok || n.ns != d.ns {
		return vfs.CrossDevice
	}
	tgt, target, err := n.changes(newName, vfs.Busy)
	if err != nil {
		return err
	}
	if src.in == tgt.in {
		return tree.Rename(ctx, name, target, newName, from, to)
	}
	return carry(vfs.Unkept(ctx), carryEnd{tree, name, src.in.o.NoLinks}, carryEnd{target, newName, tgt.in.o.NoLinks}, from, to)
}

// Tree implements [membrane.Composed].
func (d *nsDir) Tree() vfs.Dir {
	p, err := d.now()
	if err != nil || p.dir == nil {
		return nil
	}
	return p.dir
}

// Carry implements [membrane.Composed].
func (d *nsDir) Carry(dst vfs.Dir) membrane.Carrier {
	n, ok := dst.(*nsDir)
	if !ok || n.ns != d.ns {
		return nil
	}
	src, err := d.now()
	tgt, err2 := n.now()
	if cmp.Or(err, err2) != nil || src.in == nil || tgt.in == nil || src.in == tgt.in {
		return nil
	}
	return func(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
		return carry(ctx, carryEnd{dir: src, name: name}, carryEnd{dir: dst, name: newName}, from, to)
	}
}
