package overlay

import (
	"context"
	"slices"

	"capd/vfs"
	"capd/vfs/diff"
)

// Files is Patch for a lower tree that keeps files and no directories: it leaves out the
// changes of directories in which no file is another one.
func (o *Overlay) Files(ctx context.Context) ([]diff.Change, *Patch, error) {
	o.warm(ctx, "")
	var d *draft
	err := o.unchanged(ctx, func(s *snapshot) (err error) {
		d, err = s.files(ctx)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return d.changes, d.patch, nil
}

// files returns what Files does.
func (s *snapshot) files(ctx context.Context) (*draft, error) {
	d, err := s.draft(ctx)
	if err == nil {
		d.changes = slices.DeleteFunc(d.changes, d.hasNoFile)
	}
	return d, err
}

// hasNoFile reports whether c concerns directories alone.
func (d *draft) hasNoFile(c diff.Change) bool {
	return isDir(c.Was) && isDir(c.Is) && !slices.ContainsFunc(d.patch.files[c.Path], func(f filePatch) bool { return !isDir(f.was) || !isDir(f.is) })
}

// isDir reports whether s is a directory, or nothing.
func isDir(s diff.State) bool { return s.Absent() || s.Kind == vfs.DirKind }
