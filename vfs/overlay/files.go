package overlay

import (
	"context"
	"maps"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// Files returns the differences at all paths but those of directories, in byte order of
// paths, as a store sees them that keeps files and no directories: a move is a removal
// and an addition. The Patch has their texts. The overlay does not change while Files
// runs.
func (o *Overlay) Files(ctx context.Context) ([]diff.Change, *Patch, error) {
	o.warm(ctx, "")
	p := newPatch(o)
	d := &draft{differ: map[string]filePatch{}, patch: p}
	err := o.unchanged(ctx, func(s *snapshot) error {
		d.s = s
		return d.compare(ctx)
	})
	if err != nil {
		return nil, nil, err
	}
	var all []diff.Change
	for _, path := range slices.Sorted(maps.Keys(d.differ)) {
		f := d.differ[path]
		f.was, f.is = withoutDir(f.was), withoutDir(f.is)
		if f.was != f.is {
			p.files[path] = []filePatch{f}
			all = append(all, diff.Change{Path: path, Kind: diff.KindOf(f.was, f.is), Was: f.was, Is: f.is})
		}
	}
	return all, p, nil
}

func withoutDir(s diff.State) diff.State {
	if s.Kind == vfs.DirKind {
		return diff.State{}
	}
	return s
}
