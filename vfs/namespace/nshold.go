package namespace

import (
	"cmp"
	"strings"

	"capd/vfs"
	"capd/vfs/membrane"
)

// Hold implements [membrane.Composed].
func (d *nsDir) Hold(h *membrane.Holding, ops []membrane.Op) error {
	if len(ops) == 1 && !ops[0].Kind.Changes() {
		p, err := d.now()
		if err != nil || p.dir == nil {
			return err
		}
		return h.In(p.dir, ops)
	}
	return d.byTree(ops, h.In)
}

// Journal implements [membrane.Composed].
func (d *nsDir) Journal() (j vfs.Dir, name string) {
	if d.ns.journal == nil {
		return nil, ""
	}
	return d.ns.journal, d.ns.target(strings.Join(d.names(), "/"))
}

// byTree calls f for each of ops, with the directory v of a tree and the op with paths
// relative to v.
func (d *nsDir) byTree(ops []membrane.Op, f func(v vfs.Dir, ops []membrane.Op) error) error {
	for _, op := range ops {
		v, path, err := d.treeOf(op.Path)
		if err == nil && op.Kind == membrane.OpRename {
			err = d.byTreeRename(op, v, path, f)
		} else if err == nil {
			err = f(v, []membrane.Op{{Kind: op.Kind, Path: path}})
		}
		if err != nil {
			return vfs.At(op.Path, err)
		}
	}
	return nil
}

func (d *nsDir) byTreeRename(op membrane.Op, v vfs.Dir, path string, f func(vfs.Dir, []membrane.Op) error) error {
	to, toPath, err := d.treeOf(op.To)
	switch {
	case err != nil:
		return err
	case to == v:
		return f(v, []membrane.Op{{Kind: membrane.OpRename, Path: path, To: toPath}})
	}
	return cmp.Or(f(to, []membrane.Op{{Kind: membrane.OpReplace, Path: toPath}}), f(v, []membrane.Op{{Kind: membrane.OpRemove, Path: path}}))
}

// treeOf returns a directory at or above path in the tree that contains path, and the
// path from there.
func (d *nsDir) treeOf(path string) (vfs.Dir, string, error) {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return nil, "", err
	}
	p, err := d.now()
	if err != nil {
		return nil, "", err
	}
	at, v, from := p.at, p.dir, 0
	for i, name := range names {
		if at == nil {
			break
		}
		if at = at.below[name]; at != nil && at.mount != nil {
			v, from = at.mount.root, i+1
		}
	}
	if at != nil {
		return nil, "", vfs.Errorf(vfs.Busy, "something is mounted here, or below it; it cannot be changed here")
	}
	if v == nil {
		return nil, "", vfs.Errorf(vfs.ReadOnly, "this directory only leads to mounts; nothing can be made in it")
	}
	return v, strings.Join(names[from:], "/"), nil
}
