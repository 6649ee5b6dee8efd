package namespace

import (
	"cmp"
	"context"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/membrane"
)

// maxAskedAway is how many nodes may go to a temporary directory with an approval: the record lists them.
const maxAskedAway = 1000

var (
	errAskedToMove = vfs.Errorf(vfs.AskDenied, "a move there needs an approval, and none can be asked for one to or from a temporary directory; copy it")
	errLinkAlone   = vfs.Errorf(vfs.Unsupported, "a link is not moved by itself to or from a temporary directory; move what it leads to, or the directory that holds both")
	errAskedMany   = vfs.Errorf(vfs.Limit, "this needs an approval, and holds more than %d files and directories; move smaller parts", maxAskedAway)
)

// CarryTemp moves the node called name in src to newName in dst, of which one is in a temporary directory, or both; see [copier.Move] and
// [membrane.Temps]. What is made outside of temporary directories is made as a copy is, and what is removed there is removed as one change if
// any of it needs an approval. A link goes along if it leads to something that moves too: otherwise outside. The limits are those of a move
// between mounts.
func CarryTemp(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if err := membrane.MayMove(ctx, src, name, dst, newName, to); err != nil {
		return err
	}
	n, err := src.Lookup(ctx, name)
	switch {
	case vfs.CodeOf(err) == vfs.NotFound:
		return cmp.Or(from.Check(false, vfs.Version{}), err)
	case err != nil:
		return err
	}
	defer n.Close()
	held := membrane.CallBytesOf(ctx)
	defer held.End()
	o := copier.Options{Limits: copier.Limits{Entries: maxCarried}, Workers: 1, Listed: whole, Hold: smaller(held.Take)}
	switch n := n.(type) {
	case vfs.Link:
		return errLinkAlone
	case vfs.Dir:
		o.Link = copier.Within(n)
	}
	o.Planned = func(ctx context.Context, p *copier.Plan, make func(context.Context) error) error {
		m := newTempMove(p, src, name, dst, newName)
		if err := m.allowed(ctx); err != nil {
			return err
		}
		if m.isDir() {
			ctx = vfs.Unasked(ctx) // nobody named the files that it holds
		}
		return m.removed(ctx, func(ctx context.Context) error { return m.made(ctx, make) })
	}
	return copier.Move(ctx, copier.Spot{Dir: src, Name: name, If: from}, copier.Spot{Dir: dst, Name: newName, If: to}, o)
}

// tempMove is a move that was planned.
type tempMove struct {
	plan       *copier.Plan
	parts      []vfs.Part
	src, dst   vfs.Dir
	newName    string
	gone, come []membrane.Op // of each part, from src and from dst
}

func newTempMove(p *copier.Plan, src vfs.Dir, name string, dst vfs.Dir, newName string) tempMove {
	m := tempMove{plan: p, parts: p.Parts(), src: src, dst: dst, newName: newName}
	for _, p := range m.parts {
		from, to := name, newName
		if p.Path != "" {
			from, to = vfs.Join(name, p.Path), vfs.Join(newName, p.Path)
		}
		m.gone = append(m.gone, membrane.Op{Kind: membrane.OpRemove, Path: from})
		m.come = append(m.come, membrane.Op{Kind: makes(p.Kind), Path: to})
	}
	return m
}

func (m tempMove) isDir() bool { return m.parts[0].Kind == vfs.DirKind }

// allowed answers why a part may not move, and askDenied if an approval is asked for because it moves, and none for what is made or removed.
func (m tempMove) allowed(ctx context.Context) error {
	from, err := membrane.MayMoveAll(ctx, m.src, pathsOf(m.gone), false)
	if err != nil {
		return err
	}
	to, err := membrane.MayMoveAll(ctx, m.dst, pathsOf(m.come), true)
	if err != nil || !from && !to {
		return err
	}
	made, err := membrane.Asking(ctx, m.dst, m.come)
	if err != nil {
		return err
	}
	gone, err := membrane.Asking(ctx, m.src, m.gone)
	if err != nil || len(made)+len(gone) > 0 {
		return err
	}
	return errAskedToMove
}

func pathsOf(ops []membrane.Op) (all []string) {
	for _, op := range ops {
		all = append(all, op.Path)
	}
	return all
}

// made runs make, which makes what moves.
func (m tempMove) made(ctx context.Context, make func(context.Context) error) error {
	if !m.isDir() || membrane.IsTemp(m.dst) {
		return make(ctx)
	}
	parts := func(pinned bool) ([]vfs.Part, error) {
		if !pinned {
			return m.parts, nil
		}
		err := m.plan.Pin(ctx)
		return m.plan.Parts(), err
	}
	return membrane.Copied(ctx, m.dst, m.newName, m.come, parts, make)
}

// removed runs do, which removes what moves.
func (m tempMove) removed(ctx context.Context, do func(context.Context) error) error {
	why, err := membrane.Asking(ctx, m.src, m.gone)
	switch {
	case err != nil:
		return err
	case len(why) == 0:
		return do(ctx)
	case len(m.gone) > maxAskedAway:
		return errAskedMany
	}
	if err := m.plan.Pin(ctx); err != nil {
		return err
	}
	var gone []vfs.Part
	for i, p := range m.plan.Parts() {
		gone = append(gone, vfs.Part{Path: m.gone[i].Path, WasKind: p.Kind, Was: p.Version})
	}
	return membrane.Together(ctx, m.src, m.gone, gone, do)
}
