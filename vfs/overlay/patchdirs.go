package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// directories notes where git apply would make other directories than the overlay
// shows. Git only knows directories that hold files.
func (d *draft) directories(ctx context.Context) error {
	seen := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(d.differ)) {
		f := d.differ[path]
		if f.was.Kind == vfs.DirKind || f.is.Kind == vfs.DirKind {
			if err := d.directory(ctx, path, seen); err != nil {
				return err
			}
		}
		if f.is.Absent() { // git then removes directories it leaves empty
			for up, _ := diff.Split(path); up != ""; up, _ = diff.Split(up) {
				if err := d.directory(ctx, up, seen); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// directory notes a directory that should exist but that git does not make, or that
// should not exist but that git leaves.
func (d *draft) directory(ctx context.Context, path string, seen map[string]bool) error {
	if seen[path] {
		return nil
	}
	seen[path] = true
	above, err := noFiles(ctx, path, d.s.shown.Open)
	if err != nil {
		return err
	}
	stays, err := d.stays(ctx, path)
	if err != nil {
		return err
	}
	at := d.owner(path)
	switch {
	case above && !stays:
		d.patch.lacks[at] = append(d.patch.lacks[at], "git keeps no empty directory "+vfs.Printable(path))
	case stays && !above:
		is, err := d.s.visible(ctx, path)
		if err != nil || is.Kind == vfs.DirKind {
			return err
		}
		d.patch.lacks[at] = append(d.patch.lacks[at], "git removes no empty directory "+vfs.Printable(path))
	}
	return nil
}

// stays reports whether git leaves a directory of the lower tree although the patch
// leaves no file in it: it was empty, or holds such a directory.
func (d *draft) stays(ctx context.Context, path string) (bool, error) {
	in, err := dirAt(ctx, path, d.s.lower.Open)
	if in == nil || err != nil {
		return false, err
	}
	defer in.Close()
	empty := true
	for e, err := range in.List(ctx) {
		if err != nil {
			return false, err
		}
		empty = false
		if e.Kind != vfs.DirKind {
			continue
		}
		if ok, err := d.stays(ctx, vfs.Join(path, e.Name)); ok || err != nil {
			return ok, err
		}
	}
	return empty, nil
}

// noFiles reports whether the directory at path holds no file or link at any depth.
func noFiles(ctx context.Context, path string, open func(context.Context, string) (vfs.Node, error)) (bool, error) {
	d, err := dirAt(ctx, path, open)
	if d == nil || err != nil {
		return false, err
	}
	defer d.Close()
	for e, err := range d.List(ctx) {
		if err != nil {
			return false, err
		}
		if e.Kind != vfs.DirKind {
			return false, nil
		}
		if below, err := noFiles(ctx, vfs.Join(path, e.Name), open); !below || err != nil {
			return false, err
		}
	}
	return true, nil
}

// dirAt returns what open opens at path, or nil if that is no directory.
func dirAt(ctx context.Context, path string, open func(context.Context, string) (vfs.Node, error)) (vfs.Dir, error) {
	n, err := open(ctx, path)
	if missing(err) || replaced(err) {
		return nil, nil
	}
	if err != nil {
		return nil, vfs.At(path, err)
	}
	d, ok := n.(vfs.Dir)
	if !ok {
		n.Close()
	}
	return d, nil
}
