package namespace

import (
	"context"
	"slices"

	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/membrane"
)

// approval is that of a move between trees: of all that moves, at both ends, before any of it is made.
type approval struct {
	ctx      context.Context // of the whole move
	src, dst carryEnd
}

// first waits for the approval of p, and then calls make.
func (a approval) first(ctx context.Context, p *copier.Plan, make func(context.Context) error) error {
	if err := a.ask(ctx, p); err != nil {
		return err
	}
	return make(ctx)
}

// ask waits for the approval of p, if something at either end needs one. It is bound to all that p copies.
func (a approval) ask(ctx context.Context, p *copier.Plan) error {
	why, err := a.why(ctx, p.Parts())
	if err != nil || len(why) == 0 && !vfs.Asked(a.ctx) {
		return err
	}
	if err := a.vacant(ctx, p); err != nil {
		return err
	}
	for _, w := range why {
		if err := vfs.Asks(a.ctx, w); err != nil {
			return err
		}
	}
	b, err := a.bound(ctx, p)
	if err != nil {
		return err
	}
	call := vfs.CallOf(a.ctx)
	call.Bound = &b
	return vfs.Ready(vfs.WithCall(a.ctx, call), vfs.Staged{})
}

// vacant answers exists if something is where p makes something new. The copy would find out after the approval.
func (a approval) vacant(ctx context.Context, p *copier.Plan) error {
	if !p.To().Absent {
		return nil
	}
	n, err := a.dst.dir.Lookup(ctx, a.dst.name)
	switch {
	case err == nil:
		n.Close()
		return vfs.Exists
	case vfs.CodeOf(err) == vfs.NotFound:
		return nil
	}
	return err
}

// why returns why the trees at both ends ask about a move of parts.
func (a approval) why(ctx context.Context, parts []vfs.Part) ([]string, error) {
	var gone, made []membrane.Op
	for _, p := range parts {
		from, to := a.src.name, a.dst.name
		if p.Path != "" {
			from, to = vfs.Join(from, p.Path), vfs.Join(to, p.Path)
		}
		gone = append(gone, membrane.Op{Kind: membrane.OpRemove, Path: from})
		made = append(made, membrane.Op{Kind: makes(p.Kind), Path: to})
	}
	from, err := membrane.Asking(ctx, a.src.dir, gone)
	if err != nil {
		return nil, err
	}
	to, err := membrane.Asking(ctx, a.dst.dir, made)
	return slices.Concat(from, to), err
}

func makes(k vfs.Kind) membrane.OpKind {
	switch k {
	case vfs.DirKind:
		return membrane.OpMkdir
	case vfs.LinkKind:
		return membrane.OpSymlink
	}
	return membrane.OpReplace
}

// bound returns what the approval holds for. If the move was approved for now, whatever moves, that is not looked at.
func (a approval) bound(ctx context.Context, p *copier.Plan) (b vfs.Bound, err error) {
	if b.Stands = vfs.Stands(a.ctx); !b.Stands {
		err = p.Pin(ctx)
	}
	b.Parts, b.FoundTo = p.Parts(), p.To()
	b.Found.Is = b.Parts[0].Version
	return b, err
}
