package membrane

import (
	"context"
	"path"
	"strings"

	"capd/vfs"
)

// bounds returns the bounds that the policy sets to an operation that needs any of need.
func (r *rules) bounds(need mode) Bounds {
	if r.judge == nil {
		return Bounds{}
	}
	return r.judge.Bounds(Rights(need & noRights))
}

// allows returns the error for a link with text at at, if it must not be followed.
func (b Bounds) allows(at, text string) error {
	switch {
	case b.NoLinks:
		return vfs.Errorf(vfs.Denied, "a rule of the host does not allow links to be followed here")
	case b.LinksInside && !staysIn(b.Inside, at, text):
		return vfs.Errorf(vfs.Denied, "a rule of the host does not allow this link to be followed: it leads out of its root")
	}
	return nil
}

// staysIn reports whether the link with text at at leads nowhere outside the directory root,
// whatever other links there are on the way inside: a ".." may stand only before every name.
func staysIn(root, at, text string) bool {
	if strings.HasPrefix(text, "/") {
		return false
	}
	up, below := 0, false
	for name := range strings.SplitSeq(text, "/") {
		switch name {
		case "", ".":
		case "..":
			if up++; below {
				return false
			}
		default:
			below = true
		}
	}
	dir := path.Dir(at)
	if dir == "." {
		dir = ""
	}
	rest, ok := strings.CutPrefix(dir+"/", root+"/")
	if root == "" {
		rest, ok = strings.TrimPrefix(dir+"/", "/"), true
	}
	return ok && up <= strings.Count(rest, "/")
}

// fits returns the error for a file of size bytes.
func (b Bounds) fits(size int64) error {
	if b.MaxFileBytes == 0 || size <= b.MaxFileBytes {
		return nil
	}
	return vfs.Errorf(vfs.TooLarge, "a rule of the host allows files of at most %d bytes here", b.MaxFileBytes)
}

// linked returns the error for a file that has more names than one, if b forbids that. stat
// asks the store.
func (s *guardSet) linked(ctx context.Context, b Bounds, stat func(context.Context) (vfs.Info, error)) error {
	if !b.NoHardLinks || restores(ctx) {
		return nil
	}
	var info vfs.Info
	err := s.within(ctx, func(ctx context.Context) (err error) {
		info, err = stat(ctx)
		return err
	})
	switch {
	case err != nil && vfs.CodeOf(err) != vfs.NotFound && vfs.CodeOf(err) != vfs.NotRegular:
		return err
	case info.Links <= 1: // as it is if there is nothing
		return nil
	}
	return vfs.Errorf(vfs.Denied, "a rule of the host does not allow files with several names (hard links) here; copy the file, and use the copy")
}

// single returns the error for an operation on v that needs need if v must not have more
// names than one, and has.
func (v *fileView) single(ctx context.Context, need mode) error {
	r := v.standing()
	if r.judge == nil {
		return nil
	}
	return v.guards.linked(ctx, r.bounds(need), func(ctx context.Context) (vfs.Info, error) { return v.file.Stat(ctx) })
}

// bounded returns the error for a change of v, at t, that makes it size bytes long, or size
// bytes longer, if a bound forbids it.
func (v *fileView) bounded(ctx context.Context, t target, size int64, longer bool) error {
	b := t.rules.bounds(t.need)
	if b == (Bounds{}) {
		return nil
	}
	if longer && b.MaxFileBytes > 0 {
		info, err := v.stat(ctx)
		if err != nil {
			return err
		}
		size += info.Size
	}
	if err := b.fits(size); err != nil {
		return err
	}
	return v.single(ctx, t.need)
}

// single is that of fileView for what is called name, at t.
func (v *dirView) single(ctx context.Context, name string, t target) error {
	if t.rules.judge == nil {
		return nil
	}
	return v.guards.linked(ctx, t.rules.bounds(t.need), func(ctx context.Context) (vfs.Info, error) { return v.statOf(ctx, name) })
}

// statOf returns what the store says of name.
func (v *dirView) statOf(ctx context.Context, name string) (info vfs.Info, err error) {
	n, err := v.dir.Lookup(ctx, name)
	if err != nil {
		return info, err
	}
	defer n.Close()
	return n.Stat(ctx)
}

// movable returns the error for a move of name, at src, to newName in dst, at tgt, if a bound
// forbids it.
func (v *dirView) movable(ctx context.Context, name string, src target, dst *dirView, newName string, tgt target) error {
	if err := v.single(ctx, name, src); err != nil {
		return err
	}
	if err := dst.single(ctx, newName, tgt); err != nil {
		return err
	}
	b := tgt.rules.bounds(tgt.need)
	if b.MaxFileBytes == 0 {
		return nil
	}
	var info vfs.Info
	err := v.guards.within(ctx, func(ctx context.Context) (err error) {
		info, err = v.statOf(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	return b.fits(info.Size)
}
