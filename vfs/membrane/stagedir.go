package membrane

import (
	"context"

	"capd/vfs"
)

// StageDir implements [vfs.DirStager]. Guards are asked about the directory here, and about
// each node in it as it is made. The gates and the meters count all of that as made in
// place; so what is dropped is credited.
func (v *dirView) StageDir(ctx context.Context, name string) (vfs.StagedDir, error) {
	s := &stagedView{}
	s.unseen = &unseen{}
	err := v.make(ctx, OpMkdir, name, &s.view, func(ctx context.Context) (vfs.Node, error) {
		staged, err := vfs.StageDir(ctx, v.dir, name)
		s.staged, s.dir = staged, staged
		return staged, err
	})
	if err != nil {
		return nil, err
	}
	s.in = target{view: &v.view, path: s.path, rules: s.standing(), need: OpMkdir.need()}
	return s, nil
}

// stagedView is a directory that is made out of sight behind a membrane.
type stagedView struct {
	dirView
	staged vfs.StagedDir
	in     target // where it will be
}

// Place implements [vfs.StagedDir].
func (s *stagedView) Place(ctx context.Context) error {
	if err := s.in.refused(ctx); err != nil {
		return err
	}
	op := Op{Kind: OpMkdir, Path: s.path, stored: &stored{}}
	ctx = s.committing(ctx, op, nil, []target{s.in})
	if s.guards.feed != nil {
		op.targets = []target{s.in}
		ctx = vfs.OnCommit(ctx, s.guards.made(op, nil))
	}
	err := s.guards.within(ctx, s.staged.Place)
	s.unseen.over.Store(err == nil)
	s.tell(op.Stored())
	return err
}

// tell tells a guard what the gate's meter has counted.
func (s *stagedView) tell(e vfs.Effect) {
	if s.guards.staged != nil && e != (vfs.Effect{}) {
		s.guards.staged(s.base.meter, s.path, e)
	}
}

// Drop implements [vfs.StagedDir]. It credits the meters of this view, and those of the
// change that the directory was made for.
func (s *stagedView) Drop(ctx context.Context) (e vfs.Effect) {
	call, dropped := vfs.CallOf(ctx), false
	credit := s.meters().dropped(call.Dropped)
	call.Dropped = nil // an inner view leaves them to this one
	ctx = vfs.WithCall(ctx, call)
	drop := func(ctx context.Context) error {
		e, dropped = s.staged.Drop(ctx), true
		return nil
	}
	if _ = s.guards.within(ctx, drop); !dropped { // no slot in the bulkhead, and nobody else will
		_ = drop(ctx)
	}
	credit(e)
	s.tell(e)
	return e
}
