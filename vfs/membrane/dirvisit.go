package membrane

import (
	"context"

	"capd/vfs"
)

// Visit implements [vfs.Visitor]. It leaves out what is withheld, what a rule does not
// allow to be read, and what a rule asks about. Where a guard runs around reads, and where
// a bound depends on the file, each file is looked up by itself.
func (v *dirView) Visit(ctx context.Context, dir, names []string, window []byte, see func(vfs.Visited) bool) error {
	if vfs.IsTrying(ctx) {
		return vfs.ErrWouldBlock
	}
	if err := v.may(ctx, blind|noRead); err != nil {
		return err
	}
	r := v.standing()
	for _, name := range dir {
		if err := vfs.CheckName(name); err != nil {
			return err
		}
		if r = r.step(name); v.guards.hides(r) {
			return vfs.Denied
		}
	}
	w := visiting{v: v, ctx: ctx, at: vfs.JoinAll(v.path, dir), see: see}
	if err := vfs.CheckPathSize(w.at + "/"); err != nil {
		return err
	}
	names, bare := w.choose(names, r)
	switch {
	case len(names) == 0:
		return nil
	case !bare:
		return vfs.VisitEach(ctx, v, dir, names, window, see)
	}
	return w.run(dir, names, window)
}

// visiting is a Visit of a directory under way.
type visiting struct {
	v     *dirView
	ctx   context.Context
	at    string // the path of the directory
	see   func(vfs.Visited) bool
	files []visitedFile // those that may be read
	next  int           // the index of the file that comes next
	count *count        // of what is read here; nil until something is
}

// visitedFile is a file that may be read, and what says so.
type visitedFile struct {
	name  string
	rules *rules
	bound binding
}

// choose returns the names that may be read in the directory with the rules r. bare says
// that this does not depend on more than the names.
func (w *visiting) choose(names []string, r *rules) (some []string, bare bool) {
	guards := w.v.guards
	bare = guards.bare(r)
	w.files = make([]visitedFile, 0, len(names))
	some = make([]string, 0, len(names))
	for _, name := range names {
		f := visitedFile{name: name, rules: r.step(name)}
		w.bind(&f)
		if !w.mayRead(&f) {
			continue
		}
		bare = bare && guards.bare(f.rules) && !f.rules.bounds(noRead).NoHardLinks
		w.files, some = append(w.files, f), append(some, name)
	}
	return some, bare
}

// bind finds the gate that binds f. All files of a directory have the same, unless the
// host controls a route at one of them or below the directory.
func (w *visiting) bind(f *visitedFile) {
	if n := len(w.files); n > 0 && w.files[n-1].bound.holds() && w.unrouted() {
		f.bound = w.files[n-1].bound
		return
	}
	g, path := w.v.base, vfs.Join(w.at, f.name)
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	f.bound = w.v.bindLocked(path)
	if g.leads(path) {
		f.bound.more |= hidden
	}
}

// unrouted reports whether the host controls no route of the view's gate.
func (w *visiting) unrouted() bool {
	g := w.v.base
	g.tree.mu.Lock()
	defer g.tree.mu.Unlock()
	return len(g.routes) == 0 && len(g.withRoutes()) == 0
}

// mayRead reports whether the rules and the gate of f allow that it is read.
func (w *visiting) mayRead(f *visitedFile) bool {
	return !w.v.guards.hides(f.rules) && !f.rules.through() && f.rules.refuse(noRead, Asks) == nil &&
		(f.bound.mode()|w.v.mask).refuse(blind|noRead) == nil
}

// still is mayRead for a file that was read since.
func (w *visiting) still(f *visitedFile) bool {
	guards := w.v.guards
	if f.bound.holds() && (guards.policy == nil || guards.policy.Judge() == f.rules.root) {
		return true
	}
	f.rules = guards.current(f.rules, vfs.Join(w.at, f.name))
	w.bind(f)
	return w.mayRead(f)
}

// run visits the files called names. It counts as one open node while it does.
func (w *visiting) run(dir, names []string, window []byte) error {
	v, longest := w.v, ""
	for _, name := range names {
		if len(name) > len(longest) {
			longest = name
		}
	}
	longest = vfs.Join(w.at, longest)
	if err := v.meters().open(longest); err != nil {
		return err
	}
	defer v.meters().close(longest)
	var late error
	err := v.guards.within(w.ctx, func(ctx context.Context) error {
		return vfs.Visit(ctx, v.dir, dir, names, window, func(f vfs.Visited) bool {
			if late = v.may(w.ctx, blind|noRead); late != nil {
				return false
			}
			return w.found(f)
		})
	})
	if late != nil {
		return late
	}
	return err
}

// found passes on a file, if it may still be read now that it was.
func (w *visiting) found(seen vfs.Visited) bool {
	for w.next < len(w.files) && w.files[w.next].name != seen.Name { // the store leaves names out
		w.next++
	}
	if w.next == len(w.files) { // it was not asked for
		return true
	}
	f := &w.files[w.next]
	w.next++
	if !w.still(f) {
		return true
	}
	if seen.Err == nil && !seen.Large {
		w.note(f)
	}
	return w.see(seen)
}

// note counts a read of f.
func (w *visiting) note(f *visitedFile) {
	v := w.v
	if v.guards.reads == nil || v.base.meter == nil {
		return
	}
	if w.count == nil {
		w.count = v.guards.reads.at(v.base, OpRead, w.at)
	}
	v.noteIn(w.count, OpRead, vfs.Join(w.at, f.name), w.at, f.rules)
}
