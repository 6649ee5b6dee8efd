package copier

import (
	"cmp"
	"context"
	"io"

	"capd/vfs"
)

// Spot is a name in a Dir: of what is copied, or where the copy goes.
type Spot struct {
	Dir  vfs.Dir // not closed
	Name string
	// If is a condition on the file of that name. The zero If of a target means that
	// nothing may be there; a target whose If names a version replaces that file.
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
// does not hold, and exists when something is at to. It also answers exists when the
// condition on to names the version of from, since from and to may then be the same file.
func Duplicate(ctx context.Context, from, to Spot, o Options) error {
	return begin(ctx, from, to, o, func(context.Context, *transfer) error { return nil })
}

// Move copies as [Duplicate] does and then removes from, deepest first. It removes each
// file only while it still has the version that was copied. If nothing could be removed,
// Move removes the copy again.
//
// Once removal has begun, the end of ctx no longer matters. What somebody added to a
// directory, or changed, stays at from. Move then answers notEmpty or conflict, and to is
// whole. A crash at any moment leaves every file whole in at least one place.
func Move(ctx context.Context, from, to Spot, o Options) error {
	return begin(ctx, from, to, o, func(ctx context.Context, t *transfer) error {
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
}

// replaced is the file that was at the target.
type replaced struct {
	content vfs.Content // nil if there was none
	exec    bool
}

// begin makes a transfer, and then calls end.
func begin(ctx context.Context, from, to Spot, o Options, end func(context.Context, *transfer) error) (err error) {
	o.Skip, o.Exclude, o.verify = nil, nil, true
	t := &transfer{from: from, to: to, o: o}
	defer t.close()
	if err := t.check(ctx); err != nil {
		return err
	}
	ctx, sync := vfs.SyncTogether(ctx)
	defer func() { err = cmp.Or(err, sync()) }()
	if err = t.copy(ctx, sync); err != nil {
		t.undo(context.WithoutCancel(ctx))
		return err
	}
	return end(ctx, t)
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
	if t.to.If.Is.IsZero() {
		t.to.If = vfs.If{Absent: true}
	} else if err := t.replaces(ctx, f); err != nil {
		return err
	}
	if t.o.Planned == nil {
		return nil
	}
	return t.o.Planned(ctx, &Plan{t})
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

// replaces notes the file that f will replace. f is nil for a node that is not a file.
func (t *transfer) replaces(ctx context.Context, f vfs.File) error {
	n, err := t.to.Dir.Lookup(ctx, t.to.Name)
	if vfs.CodeOf(err) == vfs.NotFound {
		return t.to.If.Check(false, vfs.Version{})
	}
	if err != nil {
		return err
	}
	defer n.Close()
	there, ok := n.(vfs.File)
	if !ok || f == nil {
		return vfs.Exists
	}
	is, err := vfs.VersionOf(ctx, there)
	if err = cmp.Or(err, t.to.If.Check(true, is)); err != nil {
		return err
	}
	if mine, err := vfs.VersionOf(ctx, f); err != nil {
		return err
	} else if mine == is {
		return vfs.Errorf(vfs.Exists, "the same content is there already; remove one of the two")
	}
	info, err := there.Stat(ctx)
	if err != nil {
		return err
	}
	t.over.exec = info.Exec
	t.over.content, err = vfs.Open(ctx, there)
	return err
}

// copy copies from, and returns once all of it is in place and on disk.
func (t *transfer) copy(ctx context.Context, sync func() error) error {
	err := copyOne(ctx, t.from, spotSink{t}, t.o)
	if err == nil {
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

// undo removes what was copied, if nobody changed it since, and puts back what it
// replaced.
func (t *transfer) undo(ctx context.Context) {
	if t.staged != nil {
		t.staged.Drop(ctx)
	}
	if t.over.content == nil || !t.top.placed {
		t.top.undo(ctx, t.to.Dir, t.to.Name)
		return
	}
	old := func() io.Reader { return io.NewSectionReader(t.over.content, 0, t.over.content.Size()) }
	_, err := vfs.Install(ctx, t.to.Dir, t.to.Name, old(), t.over.exec, vfs.If{Is: t.top.version})
	if vfs.CodeOf(err) == vfs.Unsupported {
		_, _ = t.to.Dir.Replace(ctx, t.to.Name, old(), vfs.If{Is: t.top.version})
	}
}
