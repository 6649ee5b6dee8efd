package server

import (
	"context"
	"errors"
	"io"

	"capd/materialize"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/unified"
)

// Materialized is a subtree in a private directory of the host. It implements [operator.Tree].
type Materialized struct {
	*materialize.Tree
	from    vfs.Dir // the subtree that was copied; t does not own it
	journal vfs.Dir
	name    string // the name of from, for settling
}

// materialize copies d into a private directory.
func (f *FS) materialize(ctx context.Context, d vfs.Dir, name string, b operator.Bounds, progress operator.Progress) (operator.Tree, error) {
	return f.Copy(ctx, d, name, materialize.Options{
		Bounds:   materialize.Bounds{Entries: int(b.Entries), Bytes: b.Bytes},
		Progress: entries(progress),
	})
}

// Copy copies d into a private directory. The caller keeps ownership of d. If the process dies during a Sync,
// name says which tree to recover: see [virtualfs.FS.Target].
func (f *FS) Copy(ctx context.Context, d vfs.Dir, name string, o materialize.Options) (*Materialized, error) {
	t, err := f.base.New(ctx, d, o)
	if err != nil {
		return nil, err
	}
	return &Materialized{t, d, f.journal, name}, nil
}

// entries converts a Progress to that of package materialize.
func entries(p operator.Progress) func(materialize.Progress) {
	if p == nil {
		return nil
	}
	return func(m materialize.Progress) { p(m.Entries(), m.Bytes) }
}

// Changes implements [operator.Tree]. Its changes have texts.
func (t *Materialized) Changes(ctx context.Context) ([]diff.Change, []diff.Skipped, error) {
	c, err := t.Tree.Changes(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i, ch := range c.List {
		if c.List[i].Text, err = t.text(ctx, ch); err != nil {
			return nil, nil, vfs.At(ch.Path, err)
		}
	}
	return c.List, c.Skipped, nil
}

// text returns the unified text of a change. It reads the old content where it came from. If that has changed
// since, or cannot be read any more, the text does not say.
func (t *Materialized) text(ctx context.Context, c diff.Change) (string, error) {
	if c.Was.Kind == vfs.FileKind {
		c.Old = func(ctx context.Context) (io.ReadCloser, error) { return openAt(ctx, t.from, c.Path, c.Was.Version) }
	}
	text, lacks, err := unified.InPlace.Text(ctx, c)
	switch code := vfs.CodeOf(err); {
	case errors.Is(err, errChanged), code == vfs.NotFound:
		text = "changed where it came from as well\n"
	case code == vfs.Revoked, code == vfs.Expired, code == vfs.Stale, code == vfs.Denied:
		text = "what it was may not be read any more\n"
	case err != nil, lacks != "":
		text = "too long to be shown: " + unified.Bounds + "\n"
	}
	return text, ctx.Err()
}

var errChanged = errors.New("it has changed since")

// openAt opens the file at path, if it still has the version is.
func openAt(ctx context.Context, d vfs.Dir, path string, is vfs.Version) (io.ReadCloser, error) {
	f, err := vfs.WalkFile(ctx, d, path)
	if err != nil {
		return nil, err
	}
	if v, err := vfs.VersionOf(ctx, f); err != nil || v != is {
		f.Close()
		return nil, errors.Join(errChanged, err)
	}
	return diff.ReadFile(ctx, f)
}

// List returns what Changes does, without texts.
func (t *Materialized) List(ctx context.Context) ([]diff.Change, error) {
	c, err := t.Tree.Changes(ctx)
	if err != nil {
		return nil, err
	}
	return c.List, nil
}

// Sync implements [operator.Tree].
func (t *Materialized) Sync(ctx context.Context, progress operator.Progress) (int, []diff.Skipped, error) {
	return t.sync(ctx, nil, progress)
}

// SyncPaths is Sync of what is at and below paths alone.
func (t *Materialized) SyncPaths(ctx context.Context, paths []string) (int, []diff.Skipped, error) {
	return t.sync(ctx, append([]string{}, paths...), nil)
}

func (t *Materialized) sync(ctx context.Context, paths []string, progress operator.Progress) (int, []diff.Skipped, error) {
	r, err := t.Tree.Sync(ctx, t.journal, materialize.SyncOptions{Name: t.name, Paths: paths, Progress: progress.Steps()})
	return len(r.Changes), r.Skipped, err
}
