package copier

import (
	"context"

	"capd/vfs"
)

// Plan is what a [Duplicate] or a [Move] is about to copy.
type Plan struct{ t *transfer }

// To returns the condition on the target that is to hold.
func (p *Plan) To() vfs.If { return p.t.to.If }

// Parts returns what is to be copied, parents first. Versions, executable bits and targets are there after [Plan.Pin].
func (p *Plan) Parts() []vfs.Part { return p.t.top.parts(nil, "") }

func (n *node) parts(all []vfs.Part, path string) []vfs.Part {
	all = append(all, vfs.Part{Path: path, Kind: n.kind, Version: n.version, Size: n.size, Exec: n.exec, Target: n.target})
	for _, held := range n.holds {
		all = held.parts(all, vfs.Join(path, held.name))
	}
	return all
}

// Pin reads what is to be copied. From then on nothing else is copied: if something changes, the copy ends with conflict.
func (p *Plan) Pin(ctx context.Context) error {
	return p.t.top.pin(ctx, p.t.from.Dir, p.t.from.Name)
}

func (n *node) pin(ctx context.Context, d vfs.Dir, name string) error {
	is, err := d.Lookup(ctx, name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return errAltered
	}
	if err != nil {
		return err
	}
	defer is.Close()
	if vfs.KindOf(is) != n.kind {
		return errAltered
	}
	n.pinned = true
	switch is := is.(type) {
	case vfs.File:
		return n.pinFile(ctx, is)
	case vfs.Link:
		n.target, err = is.Target(ctx)
	case vfs.Dir:
		for _, held := range n.holds {
			if err := held.pin(ctx, is, held.name); err != nil {
				return err
			}
		}
	}
	return err
}

func (n *node) pinFile(ctx context.Context, f vfs.File) error {
	v, err := vfs.VersionOf(ctx, f)
	if err != nil {
		return err
	}
	if !n.version.IsZero() && n.version != v {
		return errAltered
	}
	info, err := f.Stat(ctx)
	n.version, n.size, n.exec = v, info.Size, info.Exec
	return err
}

// differs reports whether n was pinned with other properties than these.
func (n *node) differs(exec bool, target string) bool {
	return n.pinned && (n.exec != exec || n.target != target)
}
