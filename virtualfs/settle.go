package virtualfs

import (
	"context"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Settled finds out whether an act was done during which the host was killed. id is that of the act in the record. known is false if
// nothing tells. What the journal says comes first, then what is there now. Nothing is served yet.
func (fs *FS) Settled(ctx context.Context, id string, a operator.Act) (done, known bool) {
	for _, r := range fs.o.Recovered {
		if r.ID == id {
			return r.Done, r.Name != "" && r.Err == nil && len(r.Left) == 0 && (r.Done || !r.Kept)
		}
	}
	if a.Op == "sync" {
		return fs.synced(ctx, a)
	}
	m, err := fs.at(a.Path)
	if err != nil {
		return false, false
	}
	switch a.Op {
	case "apply", "undo":
		return m.applies(ctx, a)
	case "revert":
		return m.reverted(ctx, a)
	case "commit":
		return m.committed(ctx, a)
	}
	return false, false
}

func (fs *FS) synced(ctx context.Context, a operator.Act) (done, known bool) {
	if !fs.Lasting(a.Path) {
		return false, false
	}
	root := membrane.Guarded(fs.names.Root(), nil)
	defer root.Close()
	d, err := vfs.WalkDir(ctx, root, a.Path)
	if err != nil {
		return false, false
	}
	defer d.Close()
	return told(ctx, d, a.Changes)
}

// applies is Settled for an apply, and for the undo of one.
func (m *mount) applies(ctx context.Context, a operator.Act) (done, known bool) {
	if m.overlay == nil || !m.store.Lasting {
		return false, false
	}
	lower := membrane.Guarded(m.store.Root(), nil)
	defer lower.Close()
	done, known = told(ctx, lower, a.Changes)
	return done != (a.Op == "undo"), known // an undo has the changes of the apply
}

// reverted is Settled for a revert: what it drops no longer waits.
func (m *mount) reverted(ctx context.Context, a operator.Act) (done, known bool) {
	all, err := m.changes(ctx, nil)
	if err != nil || !m.store.Kept || len(a.Changes) == 0 {
		return false, false
	}
	waits := make(map[string]bool, len(all))
	for _, c := range all {
		waits[c.Path] = true
	}
	done = !waits[a.Changes[0].Path]
	for _, c := range a.Changes {
		if waits[c.Path] == done {
			return false, false
		}
	}
	return done, true
}

// committed is Settled for a commit.
func (m *mount) committed(ctx context.Context, a operator.Act) (done, known bool) {
	if m.store.Own == nil || a.Commit == "" {
		return false, false
	}
	done, err := m.store.Own.Has(ctx, a.Branch, a.Commit)
	return done, err == nil
}

// maxTold is the size, in bytes, of the largest file that told reads.
const maxTold = 64 << 20

// told finds out whether changes were made, all or none. One path is enough to tell. A file that is there tells more than a
// directory, or than nothing.
func told(ctx context.Context, d vfs.Dir, changes []diff.Change) (done, known bool) {
	for _, c := range changes {
		was, is := shown(c.Was), shown(c.Is)
		now, err := stateAt(ctx, d, c.Path)
		if err != nil || was == is || now != was && now != is {
			continue
		}
		done, known = now == is, true
		if now.Kind == vfs.FileKind {
			break
		}
	}
	return done, known
}

// shown returns what the record has of s.
func shown(s diff.State) diff.State { return diff.State{Kind: s.Kind, Version: s.Version} }

// stateAt returns what is at path, as shown does. It answers tooLarge for a file that is not read.
func stateAt(ctx context.Context, d vfs.Dir, path string) (s diff.State, err error) {
	n, err := vfs.WalkLink(ctx, d, path)
	if code := vfs.CodeOf(err); code == vfs.NotFound || code == vfs.NotDir {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	defer n.Close()
	s.Kind = vfs.KindOf(n)
	f, ok := n.(vfs.File)
	if !ok {
		return s, nil
	}
	info, err := f.Stat(ctx)
	if err == nil && info.Size > maxTold {
		err = vfs.TooLarge
	}
	if err == nil {
		s.Version, err = vfs.VersionOf(ctx, f)
	}
	return s, err
}
