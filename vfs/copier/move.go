package copier

import (
	"cmp"
	"context"

	"capd/vfs"
)

// Spot is a name in a Dir: of what is copied, or where the copy goes.
type Spot struct {
	Dir  vfs.Dir // not closed
	Name string
	// If is a condition on the file of that name. The zero If of a target means that
	// nothing may be there; a target whose If names a version replaces that file. With Over
	// what is there is replaced, as [vfs.Dir].Rename does; a link or a directory, and what a
	// link replaces, is removed first.
	If vfs.If
}

// errAltered is for a source that was not the same all the time.
var errAltered = vfs.Errorf(vfs.Conflict, "it changed while it was being copied; look at both places and try again")

// Duplicate copies the node at from, with everything in it, to another Dir. Executable
// bits are kept, times are not. Duplicate copies everything or nothing. After an error it
// removes what it made, except what somebody changed meanwhile, and what it may not change
// any more because it was revoked.
//
// If the store of to is a [vfs.DirStager], a directory is made out of sight, and appears at
// once with everything in it. In any other store its files appear one by one, each at once.
// Each file is compared with its version, and at the end all of from is compared with what
// was copied. o.Skip and o.Exclude are not used: what cannot be copied ends the copy.
//
// Duplicate answers the errors of [Copy], conflict when from changes or when a condition
// does not hold, and exists when something is at to. If the condition on to lets it replace a file that is
// the same already, it changes nothing.
func Duplicate(ctx context.Context, from, to Spot, o Options) error {
	return begin(ctx, from, to, o, false, func(context.Context, *transfer) error { return nil })
}

// Move copies as [Duplicate] does and then removes from, deepest first. It removes each
// file only while it still has the version that was copied. If nothing could be removed,
// Move removes the copy again.
//
// Move also answers exists when the content that it would replace is that of from, since from and to may then be the same file.
//
// Once removal has begun, the end of ctx no longer matters. What somebody added to a
// directory, or changed, stays at from. Move then answers notEmpty or conflict, and to is
// whole. A crash at any moment leaves every file whole in at least one place.
func Move(ctx context.Context, from, to Spot, o Options) error {
	return begin(ctx, from, to, o, true, func(ctx context.Context, t *transfer) error {
		ctx = context.WithoutCancel(ctx)
		if err := t.top.compare(ctx, from.Dir, from.Name, false); err != nil { // what was placed may lie in from
			t.undo(ctx)
			return err
		}
		err := t.top.remove(ctx, from.Dir, from.Name)
		if err != nil && t.top.same(ctx, from.Dir, from.Name) == nil {
			t.undo(ctx)
		}
		return err
	})
}

// transfer is a copy from one Dir to another.
type transfer struct {
	from, to Spot
	o        Options
	top      *node         // what is copied
	staged   vfs.StagedDir // nil unless it is a directory that is placed at once
	over     replaced
	moves    bool // from is removed
	there    bool // what would be replaced is the same already
}

// begin makes a transfer, and then calls end.
func begin(ctx context.Context, from, to Spot, o Options, moves bool, end func(context.Context, *transfer) error) error {
	o.Skip, o.Exclude, o.verify = nil, nil, true
	t := &transfer{from: from, to: to, o: o, moves: moves}
	defer t.close()
	if err := t.check(ctx); err != nil || t.there {
		return err
	}
	make := func(ctx context.Context) (err error) {
		ctx, sync := vfs.SyncTogether(ctx)
		defer func() { err = cmp.Or(err, sync()) }()
		if err = t.copy(ctx, sync); err != nil {
			t.undo(context.WithoutCancel(ctx))
			return err
		}
		return end(ctx, t)
	}
	if o.Planned == nil {
		return make(ctx)
	}
	return o.Planned(ctx, &Plan{t}, make)
}

func (t *transfer) close() {
	if t.staged != nil {
		t.staged.Close()
	}
	if t.over.content != nil {
		t.over.content.Close()
	}
}

// check checks the conditions, and that from is within the limits, before anything is
// made.
func (t *transfer) check(ctx context.Context) error {
	n, err := t.from.Dir.Lookup(ctx, t.from.Name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return cmp.Or(t.from.If.Check(false, vfs.Version{}), err)
	}
	if err != nil {
		return err
	}
	defer n.Close()
	f, isFile := n.(vfs.File)
	switch {
	case !isFile && !t.from.If.IsZero():
		return vfs.Errorf(vfs.Invalid, "only a file has a version; drop the condition")
	case isFile && !t.from.If.IsZero():
		v, err := vfs.VersionOf(ctx, f)
		if err = cmp.Or(err, t.from.If.Check(true, v)); err != nil {
			return err
		}
	}
	if err := t.plan(ctx); err != nil {
		return err
	}
	if t.to.If.Is.IsZero() && !t.to.If.Over {
		t.to.If = vfs.If{Absent: true}
		return nil
	}
	return t.replaces(ctx, n, f)
}

// plan lists what is to be copied.
func (t *transfer) plan(ctx context.Context) error {
	look, all := t.o, &node{}
	look.onlyLook, look.Progress = true, nil
	if err := copyOne(ctx, t.from, planner{node: all, hold: t.o.Hold}, look); err != nil {
		return err
	}
	t.top = all.holds[0]
	t.top.version = t.from.If.Is
	return nil
}

// copy copies from, and returns once all of it is in place and on disk.
func (t *transfer) copy(ctx context.Context, sync func() error) error {
	err := t.clear(ctx)
	if err == nil {
		err = copyOne(ctx, t.from, spotSink{t}, t.o)
	}
	if err == nil && (t.moves || t.top.kind == vfs.DirKind) { // a file has the version that was put
		err = t.top.same(ctx, t.from.Dir, t.from.Name)
	}
	if synced := sync(); err == nil {
		err = synced
	}
	if err != nil || t.staged == nil {
		return err
	}
	return cmp.Or(t.top.made(t.staged.Place(ctx)), sync())
}
