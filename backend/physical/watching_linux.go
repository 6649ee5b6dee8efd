package physical

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// watching is one Watch: a directory with everything below it. The notifier's lock guards it.
type watching struct {
	n    *notifier
	s    *Store
	h    *kernelHost
	base place
	vfs.Watch

	root   *dirWatch
	lost   bool // not everything was told; Sync begins again
	partly bool // not everything is watched
	over   bool // nothing is told any more

	seen  map[seenAt]uint32 // what happened since the last flush
	order []seenAt          // of seen
	moves []movement
	froms map[uint32]leaving // by cookie

	displaced map[seenAt]*dirWatch // was where another was moved to; in an exchange it is moved next
	early     bool                 // some names could not be looked at, since their directory has just been moved
}

// dirWatch is a directory that is watched. It is where its parent is, by its name.
type dirWatch struct {
	w      *watching
	parent *dirWatch // nil at the top, and in what has left
	name   string
	wd     int32
	ino    uint64
	kids   map[string]*dirWatch
}

// seenAt is a name in a directory.
type seenAt struct {
	in   *dirWatch
	name string
}

// movement is a rename within the directory.
type movement struct{ from, to seenAt }

// leaving is what was renamed, until it is known where to. sub is nil if it is no directory that is watched.
type leaving struct {
	from seenAt
	sub  *dirWatch
}

// path returns where d is, from the top; false if it has left.
func (d *dirWatch) path() (string, bool) {
	var names []string
	for ; d.parent != nil; d = d.parent {
		names = append(names, d.name)
	}
	slices.Reverse(names)
	return vfs.JoinAll("", names), d == d.w.root
}

// at returns the path of a name from the top.
func (p seenAt) at() (string, bool) {
	dir, ok := p.in.path()
	return vfs.Join(dir, p.name), ok
}

// begin watches everything.
func (w *watching) begin(ctx context.Context) error {
	w.seen, w.order, w.moves, w.froms = map[seenAt]uint32{}, nil, nil, map[uint32]leaving{}
	w.displaced, w.early = map[seenAt]*dirWatch{}, false
	w.lost, w.partly = false, false
	w.root = &dirWatch{w: w}
	top, err := w.open("")
	if err != nil {
		return err
	}
	defer top.release()
	return w.follow(ctx, w.root, top, 0)
}

// open opens the directory at path, from the top, for reading.
func (w *watching) open(path string) (*kernelDir, error) {
	full := w.base.path
	if path != "" {
		full = vfs.Join(full, path)
	}
	fd, err := openat2(w.h.root, cmp.Or(full, "."), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	d := &kernelDir{h: w.h, fd: fd, path: full, owned: true}
	if path == "" && full != "" {
		if err := w.h.verify(fd, w.base); err != nil {
			d.release()
			return nil, err
		}
	}
	return d, nil
}

// follow watches d, which dir is open on, and all directories below it. It first watches a directory and then lists it. So what is made there
// meanwhile is listed, or told, or both. Each directory is opened in the one above, wherever that is by now.
func (w *watching) follow(ctx context.Context, d *dirWatch, dir *kernelDir, depth int) error {
	a, err := standing(dir)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.Count(1) != nil {
		w.part()
		return nil
	}
	if d.wd, err = w.n.add(dir.fd, d); err != nil {
		_ = w.Count(-1)
		if err == unix.ENOSPC {
			w.part()
			return nil
		}
		return err
	}
	d.ino = a.ino
	var names []string
	err = dir.read64(dir.fd, func(some []vfs.Entry) error {
		for _, e := range some {
			if e.Kind == vfs.DirKind && !hidden(e.Name) {
				names = append(names, e.Name)
			}
		}
		return nil
	})
	if err != nil || depth == vfs.MaxDepth {
		return err
	}
	for _, name := range names {
		if w.partly {
			return nil
		}
		if err := w.followIn(ctx, d, dir, name, depth+1); err != nil && ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// followIn watches the directory called name in d, which dir is open on. If it has gone, that is told.
func (w *watching) followIn(ctx context.Context, d *dirWatch, dir *kernelDir, name string, depth int) error {
	fd, err := openat2(dir.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	sub := &kernelDir{h: w.h, fd: fd, path: vfs.Join(dir.path, name), owned: true}
	defer sub.release()
	kid := &dirWatch{w: w}
	kid.enter(d, name)
	if err := w.follow(ctx, kid, sub, depth); err != nil {
		w.drop(kid)
		return err
	}
	return nil
}

// part notes that not everything is watched. What is, need not be any more.
func (w *watching) part() {
	if !w.partly {
		w.partly = true
		w.Tell([]vfs.Notice{{Kind: vfs.Partly}})
	}
}

// drop forgets d and what is below it.
func (w *watching) drop(d *dirWatch) {
	d.leave()
	for all := []*dirWatch{d}; len(all) > 0; {
		d := all[len(all)-1]
		all = all[:len(all)-1]
		for _, kid := range d.kids {
			all = append(all, kid)
		}
		d.kids = nil
		if d.wd != 0 {
			w.n.remove(d)
			_ = w.Count(-1)
		}
	}
}

// lose notes that something was missed.
func (w *watching) lose() {
	if !w.lost && !w.over {
		w.lost = true
		w.Tell([]vfs.Notice{{Kind: vfs.Lost}})
	}
}

// end stops it. tell says that somebody waits who did not ask for that.
func (w *watching) end(tell bool) {
	if w.over {
		return
	}
	w.over = true
	if w.root != nil {
		w.drop(w.root)
	}
	w.dropLost()
	delete(w.n.all, w)
	if tell {
		w.Tell([]vfs.Notice{{Kind: vfs.Lost}})
	}
}

// note notes an event.
func (w *watching) note(d *dirWatch, name string, mask, cookie uint32) {
	if w.lost || w.over {
		return
	}
	at := seenAt{d, name}
	was, again := w.seen[at]
	if !again {
		w.order = append(w.order, at)
	}
	w.seen[at] = was | mask
	switch {
	case mask&unix.IN_MOVED_FROM != 0:
		l := leaving{from: at}
		if mask&unix.IN_ISDIR != 0 {
			if l.sub = w.displaced[at]; l.sub != nil && l.sub.wd != 0 {
				delete(w.displaced, at)
			} else if l.sub = d.kids[name]; l.sub != nil {
				l.sub.leave()
			}
		}
		w.froms[cookie] = l
	case mask&unix.IN_MOVED_TO != 0:
		l, ok := w.froms[cookie]
		if !ok {
			return
		}
		delete(w.froms, cookie)
		w.moves = append(w.moves, movement{l.from, at})
		if over := d.kids[name]; over != nil {
			over.leave()
			w.displace(at, over)
		}
		switch {
		case l.sub == nil:
		case d.below(l.sub): // not everything was told
			w.drop(l.sub)
			w.lose()
		default:
			l.sub.enter(d, name)
		}
	}
}

// displace keeps d, which was at a place, until the next flush.
func (w *watching) displace(at seenAt, d *dirWatch) {
	if old := w.displaced[at]; old != nil {
		w.drop(old)
	}
	w.displaced[at] = d
}

// enter makes d the directory called name in parent.
func (d *dirWatch) enter(parent *dirWatch, name string) {
	if parent.kids == nil {
		parent.kids = map[string]*dirWatch{}
	}
	d.parent, d.name, parent.kids[name] = parent, name, d
}

// leave takes d out of its parent.
func (d *dirWatch) leave() {
	if d.parent != nil && d.parent.kids[d.name] == d {
		delete(d.parent.kids, d.name)
	}
	d.parent = nil
}

// below reports whether d is top, or in it.
func (d *dirWatch) below(top *dirWatch) bool {
	for ; d != nil; d = d.parent {
		if d == top {
			return true
		}
	}
	return false
}

// state is what is at a name.
type state struct {
	there bool
	dir   bool
	ino   uint64
	last  int64 // change
	mine  bool  // a directory that was made there through the store
}

// dropLost forgets directories of which nobody has told where they are.
func (w *watching) dropLost() {
	for _, l := range w.froms {
		if l.sub != nil {
			w.drop(l.sub)
		}
	}
	for _, d := range w.displaced {
		w.drop(d)
	}
	clear(w.froms)
	clear(w.displaced)
}

// flush tells what was noted. It looks at each name, and watches the directories that are new.
func (w *watching) flush() {
	if w.lost || w.over || len(w.order) == 0 {
		w.early = false
		return
	}
	if w.s.begin() != nil {
		return // the store ends
	}
	defer w.s.left()
	seen, order, moves := w.seen, w.order, w.moves
	w.seen, w.order, w.moves = map[seenAt]uint32{}, nil, nil
	w.dropLost() // they have left
	now, early := w.look(order)
	w.early = false
	var told, rest []vfs.Notice // all paths are those after the moves, so these are told first
	moved := map[seenAt]seenAt{}
	gone := map[seenAt]bool{}
	const moveTo = unix.IN_MOVED_TO | unix.IN_ISDIR
	for _, m := range moves {
		if early[m.from.in] || early[m.to.in] {
			continue
		}
		if seen[m.from]&^unix.IN_ISDIR == unix.IN_MOVED_FROM && !now[m.from].there && now[m.to].there && seen[m.to]&^moveTo&(unix.IN_MOVED_FROM|unix.IN_CREATE|unix.IN_DELETE) == 0 {
			moved[m.to], gone[m.from] = m.from, true
		}
	}
	for _, at := range order {
		path, ok := at.at()
		if !ok || gone[at] {
			continue
		}
		if early[at.in] {
			w.again(at, seen[at])
			continue
		}
		is, mask := now[at], seen[at]
		n := vfs.Notice{Event: vfs.Changed, Path: path, Dir: is.dir, Last: is.last}
		from, isMoved := moved[at]
		switch {
		case !is.there && mask&(unix.IN_DELETE|unix.IN_MOVED_FROM) == 0: // that is told next; or it is a file that never had a name
			continue
		case !is.there:
			n.Event = vfs.Removed
		case isMoved:
			n.Event = vfs.Moved
			if n.From, ok = from.at(); !ok {
				n.Event, n.From = vfs.Created, ""
			}
		case mask&(unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM) != 0: // it was something else before
			n.Event = vfs.Created
		}
		if w.settle(at, is) && n.Event == vfs.Changed {
			n.Event = vfs.Created
		}
		n.Mine = is.mine && n.Event == vfs.Created
		if n.Event != vfs.Moved {
			rest = append(rest, n)
			continue
		}
		told = append(told, n)
		if mask&(unix.IN_MODIFY|unix.IN_CLOSE_WRITE) != 0 {
			rest = append(rest, vfs.Notice{Event: vfs.Changed, Path: path, Last: is.last})
		}
	}
	if told = append(told, rest...); len(told) > 0 && !w.over {
		w.Tell(told)
	}
}

// look returns what is at each of all. early has the directories that are not where they were: what has become of them is told next.
func (w *watching) look(all []seenAt) (now map[seenAt]state, early map[*dirWatch]bool) {
	now, early = map[seenAt]state{}, map[*dirWatch]bool{}
	byDir := map[*dirWatch][]string{}
	for _, at := range all {
		byDir[at.in] = append(byDir[at.in], at.name)
	}
	for in, names := range byDir {
		path, ok := in.path()
		if !ok {
			continue
		}
		d, err := w.open(path)
		if err != nil {
			early[in] = true
			continue
		}
		if a, err := d.attr(); err != nil || a.ino != in.ino {
			early[in] = true
			d.release()
			continue
		}
		for _, name := range names {
			stx, err := w.h.statx(d.fd, name)
			if err != nil {
				continue
			}
			s := state{there: true, dir: stx.Mode&unix.S_IFMT == unix.S_IFDIR, ino: stx.Ino, last: stx.Ctime.Sec*1e9 + int64(stx.Ctime.Nsec)}
			if s.dir {
				s.mine = w.n.mine.has(madeDir{w.s, vfs.Join(d.path, name), stx.Ino})
			}
			now[seenAt{in, name}] = s
		}
		d.release()
	}
	return now, early
}

// settle has exactly the directory watched that is at a name, if one is. It reports whether that is new.
func (w *watching) settle(at seenAt, is state) (anew bool) {
	kid := at.in.kids[at.name]
	if kid != nil && is.dir && kid.ino == is.ino {
		return false
	}
	if kid != nil {
		w.drop(kid)
	}
	if !is.dir || w.partly {
		return false
	}
	path, ok := at.in.path()
	if !ok {
		return false
	}
	dir, err := w.open(path)
	if err == nil {
		defer dir.release()
		var a attr
		if a, err = dir.attr(); err == nil && a.ino != at.in.ino {
			err = vfs.Stale
		}
	}
	if err != nil {
		w.again(at, unix.IN_CREATE)
		return false
	}
	_ = w.followIn(context.Background(), at.in, dir, at.name, strings.Count(path, "/")+1)
	return true
}

// again notes that a name could not be looked at, since its directory was moved just now.
func (w *watching) again(at seenAt, mask uint32) {
	if _, ok := w.seen[at]; !ok {
		w.order = append(w.order, at)
	}
	w.seen[at] |= mask
	w.early = true
}
