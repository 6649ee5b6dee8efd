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
		m := tempMove{plan: p, parts: p.Parts()}
		if m.isDir() {
			ctx = vfs.Unasked(ctx) // nobody named the files that it holds
		}
		into := func(ctx context.Context) error { return m.made(ctx, dst, newName, make) }
		return m.removed(ctx, src, name, into)
	}
	if membrane.AskedToMove(ctx, src, name, dst, newName, to) {
		if err := askedAnyway(ctx, src, name, dst, newName); err != nil {
			return err
		}
	}
	return copier.Move(ctx, copier.Spot{Dir: src, Name: name, If: from}, copier.Spot{Dir: dst, Name: newName, If: to}, o)
}

// askedAnyway answers askDenied unless an approval is asked for what the move makes or removes.
func askedAnyway(ctx context.Context, src vfs.Dir, name string, dst vfs.Dir, newName string) error {
	made, err := membrane.Asking(ctx, dst, []membrane.Op{{Kind: membrane.OpReplace, Path: newName}})
	if err != nil {
		return err
	}
	gone, err := membrane.Asking(ctx, src, []membrane.Op{{Kind: membrane.OpRemove, Path: name}})
	if err != nil || len(made)+len(gone) > 0 {
		return err
	}
	return errAskedToMove
}

// tempMove is a move that was planned.
type tempMove struct {
	plan  *copier.Plan
	parts []vfs.Part
}

func (m tempMove) isDir() bool { return m.parts[0].Kind == vfs.DirKind }

// made runs make, which makes newName in dst.
func (m tempMove) made(ctx context.Context, dst vfs.Dir, newName string, make func(context.Context) error) error {
	if !m.isDir() || membrane.IsTemp(dst) {
		return make(ctx)
	}
	parts := func(pinned bool) ([]vfs.Part, error) {
		if !pinned {
			return m.parts, nil
		}
		err := m.plan.Pin(ctx)
		return m.plan.Parts(), err
	}
	return membrane.Copied(ctx, dst, newName, m.ops(newName, makes), parts, make)
}

// removed runs do, which removes name from src.
func (m tempMove) removed(ctx context.Context, src vfs.Dir, name string, do func(context.Context) error) error {
	ops := m.ops(name, func(vfs.Kind) membrane.OpKind { return membrane.OpRemove })
	why, err := membrane.Asking(ctx, src, ops)
	switch {
	case err != nil:
		return err
	case len(why) == 0:
		return do(ctx)
	case len(ops) > maxAskedAway:
		return errAskedMany
	}
	if err := m.plan.Pin(ctx); err != nil {
		return err
	}
	var gone []vfs.Part
	for i, p := range m.plan.Parts() {
		gone = append(gone, vfs.Part{Path: ops[i].Path, WasKind: p.Kind, Was: p.Version})
	}
	return membrane.Together(ctx, src, ops, gone, do)
}

// ops are changes of all that moves, from where it is called top.
func (m tempMove) ops(top string, kind func(vfs.Kind) membrane.OpKind) (all []membrane.Op) {
	for _, p := range m.parts {
		path := top
		if p.Path != "" {
			path = vfs.Join(top, p.Path)
		}
		all = append(all, membrane.Op{Kind: kind(p.Kind), Path: path})
	}
	return all
}
