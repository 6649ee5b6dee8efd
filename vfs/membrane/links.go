package membrane

import (
	"context"
	"math"
	"strings"

	"golang.org/x/sync/semaphore"

	"capd/vfs"
)

// A link leads other programs too, which know nothing of grants and mounts. So a guest makes no link that leads out of its grant, or out of
// the tree on whose disk the link is, and moves no link to where it would.

// MakeLink makes a link called name with the text target in dir, for whoever holds d: dir is d or below it, and the link must lead to a place
// in d. The link must also stay in what the capability was granted for, and in the tree of one store. MakeLink needs the rights to link
// and to write. It answers outside, and otherwise as [vfs.CheckOwnTarget], [vfs.CheckOwnLink] and [vfs.Symlink]. For a node behind no
// membrane it answers unsupported.
func MakeLink(ctx context.Context, d, dir vfs.Dir, name, target string) error {
	top, err := viewOf[*dirView](d)
	if err != nil {
		return err
	}
	v, err := viewOf[*dirView](dir)
	if err != nil {
		return err
	}
	return v.symlink(ctx, name, target, OpSymlink.need()|noLink, func() error {
		if err := vfs.CheckOwnTarget(target); err != nil {
			return err
		}
		if vfs.Rises(target) > min(v.room(), depth(v.path)-depth(top.path)) {
			return errLeadsOut
		}
		return vfs.CheckOwnLink(ctx, d, strings.TrimPrefix(strings.TrimPrefix(v.path, top.path), "/"), target)
	})
}

var (
	errLeadsOut = vfs.Errorf(vfs.Outside, "the link would lead out of what was given here, or out of the tree that it is in")
	errMovedOut = vfs.Errorf(vfs.Outside, "a link in it, or it itself, would lead out of what was granted, or of its tree, from there; move it to a place as deep, or make the link anew")
	errLong     = vfs.Errorf(vfs.Limit, "a path in it is longer than %d bytes, and the links there cannot be looked at; give shorter names first", vfs.MaxPath)
	errDeepLink = vfs.Errorf(vfs.Limit, "a link in it would be more than %d names deep there; move it to a place further up", vfs.MaxDepth)
)

// depth returns how many names path has.
func depth(path string) int {
	if path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// room returns how far a link in v may lead up: to where v's capability was granted, and to the root of the one tree that v is in.
func (v *dirView) room() int {
	r := depth(v.path) - depth(v.base.origin)
	if in := v.inTree(); in != nil {
		r = min(r, in.room())
	}
	return r
}

// inTree returns the view of one tree that v is a view of, or nil if a store is behind v.
func (v *dirView) inTree() *dirView {
	d := v.dir
	if c, ok := d.(Composed); ok {
		d = c.Tree()
	}
	in, _ := d.(*dirView)
	return in
}

// ofStore reports whether a store is behind v.
func (v *dirView) ofStore() bool {
	_, composed := v.dir.(Composed)
	return !composed && v.inTree() == nil
}

// Room returns how far a link may lead up that a move with ctx brings into dst; see [MakeLink].
func Room(ctx context.Context, dst vfs.Dir) int {
	room := math.MaxInt
	if m, ok := ctx.Value(moveKey{}).(move); ok {
		room = m.room
	}
	if v, ok := dst.(*dirView); ok {
		room = min(room, v.room())
	}
	return room
}

// CheckMoved answers outside for a link that would lead out from where it moves. path is that of the link in what moves, and "" for the link
// itself. room is that of the directory which it moves into.
func CheckMoved(path, target string, room int) error {
	if target != "" && target[0] != '/' && vfs.Rises(target)-depth(path) > room {
		return errMovedOut
	}
	return nil
}

// move says what the views around a store know of a move.
type move struct {
	room   int  // of the target directory, for links
	steady bool // every link leads from the target to where it led, or to a place that is as far below
}

type moveKey struct{}

// movingLinks returns ctx for a move from v to d.
func movingLinks(ctx context.Context, v, d *dirView) context.Context {
	m := move{room: Room(ctx, d), steady: v.base.origin == d.base.origin && depth(v.path) == depth(d.path)}
	if outer, ok := ctx.Value(moveKey{}).(move); ok {
		m.steady = m.steady && outer.steady
	}
	return context.WithValue(ctx, moveKey{}, m)
}

// moved runs do, which moves name from v, behind which is a store, to the path to in the same tree. If links in what moves could lead out from
// their new places, it looks at them first, and no link is made or moved in the tree meanwhile.
func (v *dirView) moved(ctx context.Context, name, to string, do func(context.Context) error) error {
	m, _ := ctx.Value(moveKey{}).(move)
	ctx = context.WithValue(ctx, moveKey{}, nil) // the store may have other trees inside
	if m.steady || restores(ctx) {
		return v.guards.links.some(ctx, func() error { return do(ctx) })
	}
	return v.guards.links.alone(ctx, func() error {
		n, err := v.dir.Lookup(ctx, name)
		if err != nil {
			return do(ctx) // which says why
		}
		defer n.Close()
		if err := (movedLinks{vfs.Join(v.path, name), to, m.room}).check(ctx, n, ""); err != nil {
			return err
		}
		return do(ctx)
	})
}

// movedLinks looks at the links in what moves from one path of a tree to another, in a directory with that room. Where no path of a guest leads,
// more than [vfs.MaxDepth] names deep, it does not look: a guest makes and moves no link to there.
type movedLinks struct {
	from, to string
	room     int
}

// check checks n, which is at path in what moves.
func (m movedLinks) check(ctx context.Context, n vfs.Node, path string) error {
	switch n := n.(type) {
	case vfs.Link:
		if depth(m.to)+depth(path) > vfs.MaxDepth {
			return errDeepLink
		}
		target, err := n.Target(ctx)
		if err != nil {
			return err
		}
		return CheckMoved(path, target, m.room)
	case vfs.Dir:
		for e, err := range n.List(ctx) {
			if err == nil && (e.Kind == vfs.DirKind || e.Kind == vfs.LinkKind) {
				err = m.checkIn(ctx, n, e.Name, vfs.Join(path, e.Name))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m movedLinks) checkIn(ctx context.Context, d vfs.Dir, name, path string) error {
	switch {
	case depth(m.from)+depth(path) > vfs.MaxDepth:
		return nil
	case len(m.from)+1+len(path) > vfs.MaxPath:
		return errLong
	}
	n, err := d.Lookup(ctx, name)
	switch vfs.CodeOf(err) {
	case "":
		defer n.Close()
		return m.check(ctx, n, path)
	case vfs.NotFound, vfs.CrossDevice, vfs.NotRegular: // removed meanwhile, or a place that does not move
		return nil
	}
	return err
}

// linkLock orders the changes of one tree that make or move links. Those that look at the links of what they move are alone.
type linkLock struct{ all *semaphore.Weighted }

// linkers is how many changes hold a linkLock at once, if none is alone.
const linkers = 1 << 30

func newLinkLock() linkLock { return linkLock{semaphore.NewWeighted(linkers)} }

func (l linkLock) some(ctx context.Context, do func() error) error { return l.holding(ctx, 1, do) }

func (l linkLock) alone(ctx context.Context, do func() error) error {
	return l.holding(ctx, linkers, do)
}

func (l linkLock) holding(ctx context.Context, n int64, do func() error) error {
	if err := l.all.Acquire(ctx, n); err != nil {
		return err
	}
	defer l.all.Release(n)
	return do()
}
