package overlay

import (
	"context"
	"errors"

	"capd/vfs"
	"capd/vfs/diff"
)

// A plan runs while its call holds the turn. It reads nothing then that takes longer
// the larger a file or a directory is. If it needs the version of a long file, or needs
// to know whether a lower directory is empty, it answers unknown. The overlay then
// gives up the turn, finds that out, and runs the plan again. The plan uses what was
// found unless something shows that it has changed. The lower tree may change in
// between. It may do so at any time, since the turn does not lock it.

// shortFile is the size, in bytes, up to which a file is read while the turn is held.
const shortFile = 64 << 10

// unknown is the error of a plan that needs something that takes long to find out: find
// finds it out.
type unknown struct {
	find func(context.Context) error
}

func (*unknown) Error() string { return "overlay: this is found out with no turn held" }

// found is what one call has found out so far.
type found struct {
	o       *Overlay
	states  map[string]stateAs
	written map[*content]versionAs
	empty   map[string]emptyAs // by path
	open    []vfs.Node         // directories in empty
}

type stateAs struct {
	info  vfs.Info // when it was read
	state diff.State
}

type versionAs struct {
	writes  uint64 // when it was read
	version vfs.Version
}

type emptyAs struct {
	node  *node
	edits uint64 // when it was read
	empty bool
}

type foundKey struct{}

// foundIn returns what the call of ctx has found out; nil if the call reads whatever it
// needs.
func foundIn(ctx context.Context) *found {
	f, _ := ctx.Value(foundKey{}).(*found)
	return f
}

// turns is how often a call takes the turn before it gives up because something keeps
// changing.
const turns = 16

var errChanging = vfs.Errorf(vfs.Busy, "it keeps changing; try again")

// inTurn runs do while it holds the turn. If do answers unknown, inTurn finds that out
// and runs do again.
func (o *Overlay) inTurn(ctx context.Context, do func(context.Context) error) error {
	f := &found{o: o}
	defer f.close()
	known := context.WithValue(ctx, foundKey{}, f)
	for range turns {
		err := o.oneTurn(known, do)
		need, ok := errors.AsType[*unknown](err)
		if !ok {
			return err
		}
		err = need.find(ctx)
		if missing(err) || lost(err) { // it no longer exists, which the plan will notice
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return errChanging
}

func (o *Overlay) oneTurn(ctx context.Context, do func(context.Context) error) error {
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end()
	return do(ctx)
}

func (f *found) close() {
	for _, n := range f.open {
		n.Close()
	}
}

// note sets (*m)[key] to value. It makes the map if it is nil.
func note[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// findState finds the state of a lower path.
func (f *found) findState(ctx context.Context, path string) error {
	n, err := f.o.lowerAt(ctx, path)
	if err != nil {
		return err
	}
	defer n.Close()
	before, err := n.Stat(ctx)
	if err != nil {
		return err
	}
	state, err := stateOf(ctx, n)
	if err != nil {
		return err
	}
	after, err := n.Stat(ctx)
	if err != nil || !alike(before, after) {
		return err
	}
	note(&f.states, path, stateAs{after, state})
	return nil
}

// findVersion finds the version of a content.
func (f *found) findVersion(ctx context.Context, c *content) error {
	writes := c.writes.Load()
	at, err := f.o.contents.file(ctx, c)
	if err != nil {
		return err
	}
	v, err := vfs.VersionOf(ctx, at)
	if err != nil {
		return err
	}
	note(&f.written, c, versionAs{writes, v})
	return nil
}

// findEmpty finds out whether the directory called name in d is empty. It keeps the
// directory open, so that its node stays the same while it exists.
func (f *found) findEmpty(ctx context.Context, d *dir, name string) error {
	n, err := d.Lookup(ctx, name)
	if err != nil {
		return err
	}
	f.open = append(f.open, n)
	at, ok := n.(*dir)
	if !ok {
		return nil
	}
	d.o.mu.RLock()
	here := at.in.node
	path, edits := here.path(), here.edits
	d.o.mu.RUnlock()
	some, err := at.Any(ctx, func(vfs.Entry) bool { return true })
	if err != nil {
		return err
	}
	note(&f.empty, path, emptyAs{here, edits, !some})
	return nil
}

// alike reports whether b shows no change of the file since a.
func alike(a, b vfs.Info) bool {
	return a.Kind == b.Kind && a.Size == b.Size && a.ModifiedMs == b.ModifiedMs && a.Exec == b.Exec
}

// stateIn is stateOf for the node n that the lower tree has at path. It uses what f
// knows.
func (f *found) stateIn(ctx context.Context, path string, n vfs.Node) (diff.State, error) {
	if _, ok := n.(vfs.File); !ok || f == nil {
		return stateOf(ctx, n)
	}
	info, err := n.Stat(ctx)
	if err != nil {
		return diff.State{}, err
	}
	if info.Size <= shortFile {
		return stateOf(ctx, n)
	}
	if have, ok := f.states[path]; ok && alike(have.info, info) {
		return have.state, nil
	}
	return diff.State{}, &unknown{func(ctx context.Context) error { return f.findState(ctx, path) }}
}

// versionIn returns the version of the file at s. It uses what f knows.
func (f *found) versionIn(ctx context.Context, s *spot) (vfs.Version, error) {
	at, err := s.file(ctx)
	if err != nil {
		return vfs.Version{}, err
	}
	info, err := at.Stat(ctx)
	if err == nil {
		err = vfs.CheckVersioned(info.Size)
	}
	switch {
	case err != nil:
		return vfs.Version{}, err
	case s.content == nil:
		state, err := s.state(ctx)
		return state.Version, err
	case f == nil || info.Size <= shortFile:
		return vfs.VersionOf(ctx, at)
	}
	if have, ok := f.written[s.content]; ok && have.writes == s.content.writes.Load() {
		return have.version, nil
	}
	return vfs.Version{}, &unknown{func(ctx context.Context) error { return f.findVersion(ctx, s.content) }}
}

// emptyIn answers notEmpty if the directory at s holds something. It uses what f knows.
func (f *found) emptyIn(s *spot) error {
	s.ref.o.mu.RLock()
	defer s.ref.o.mu.RUnlock()
	have, ok := f.empty[s.path]
	switch {
	case !ok || have.node != s.node || have.edits != s.node.edits:
		return &unknown{func(ctx context.Context) error { return f.findEmpty(ctx, &dir{s.ref}, s.name) }}
	case !have.empty:
		return vfs.NotEmpty
	}
	return nil
}
