package vfs

import (
	"context"
	"errors"
	"strings"
)

// Find is [Search.In] for who does not want to know what was missed.
func Find(ctx context.Context, d Dir, p *Pattern, after string, visit func(path string, kind Kind, hit bool, work int) bool) error {
	return Search{Pattern: p, After: after, Visit: visit}.In(ctx, d)
}

// Search looks through a tree for paths that match a pattern.
type Search struct {
	Pattern *Pattern
	// After is the path to begin after, so that a search can go on where it stopped;
	// "" begins at the start.
	After string
	// Visit is called for every entry that the search looks at, in tree order: by
	// name, in byte order, a directory before what it holds. hit says whether its path
	// matches, and work how much it took since the last visit: 1 for an entry of a
	// plain pattern. The search ends when Visit returns false.
	Visit func(path string, kind Kind, hit bool, work int) bool
	// Missed, which may be nil, is called for every directory that could not be
	// listed, or not to its end, although something in it could match; the error has
	// no path. It is called for a name too that the pattern spells out and that could
	// not be looked up. What policy withholds and what is gone by then is not missed.
	// A search that goes on where another stopped may miss the same path again.
	Missed func(path string, err error)
}

// In searches the tree below d. It does not look where nothing can match, nor
// through links. An error is one of d itself, or one that every further look would
// give too.
func (s Search) In(ctx context.Context, d Dir) error {
	f := finder{ctx: ctx, p: s.Pattern, visit: s.Visit, missed: s.Missed}
	if f.missed == nil {
		f.missed = func(string, error) {}
	}
	defer f.scouts.end()
	_, err := f.dir(&place{dir: d}, "", f.p.Start(), s.After, s.After != "")
	if err == nil { // d itself may be why nothing was found
		_, err = d.Stat(ctx)
	}
	return err
}

type finder struct {
	ctx    context.Context
	p      *Pattern
	visit  func(string, Kind, bool, int) bool
	missed func(string, error)
	scouts scouts

	compared int // bytes, since the last visit
}

// unit is how many bytes are compared in the time that an entry takes.
const unit = 512

// found visits an entry.
func (f *finder) found(path string, kind Kind, hit bool) bool {
	work := 1 + f.compared/unit
	f.compared = 0
	return f.visit(path, kind, hit, work)
}

// sight is an entry that the search comes to, and what becomes of the pattern there.
type sight struct {
	Entry
	next     State
	compared int     // bytes, for that
	into     bool    // it is a directory in which something can match
	deep     error   // why it is not looked into nevertheless
	below    *survey // what a scout found out about it, or will
}

// look says what becomes of the pattern at an entry of the directory at path.
func (f *finder) look(e Entry, path string, s State) sight {
	next, compared := f.p.step(s, e.Name)
	v := sight{Entry: e, next: next, compared: compared}
	if e.Kind == DirKind && f.open(next) {
		v.deep = CheckPathSize(Join(path, e.Name) + "/")
		v.into = v.deep == nil
	}
	return v
}

// miss tells of what could not be looked into at path, and answers an error that ends
// the search. p is the directory there, or nil.
func (f *finder) miss(p *place, path string, err error) error {
	switch {
	case fatal(err):
		return err
	case withheld(err), CodeOf(err) == NotFound, CodeOf(err) == NotDir, CodeOf(err) == NotRegular:
		return nil
	case CodeOf(err) == Stale && p != nil && p.gone(f.ctx):
		return nil
	}
	f.missed(path, err)
	return nil
}

// withheld reports an error that is all that policy says of a name, there or not.
func withheld(err error) bool {
	e, said := errors.AsType[*Error](err)
	if !said {
		return CodeOf(err) == Denied
	}
	return e == errNoLinks || e.Code == Denied && e.Msg == hint(Denied)
}

// stretch is how many entries of a directory are looked over before the search goes
// through them; fewer when the pattern is more work than stretch units.
const stretch = 256

// way is how far the search has come in one directory. What precedes skip was seen
// before, and what follows it is new; rest is what was seen below it.
type way struct {
	d          *place
	path       string
	skip, rest string
	resume     bool
	readable   func() error
}

// dir searches one directory, which is at path. resume says that what precedes
// after, relative to the directory, was seen before.
func (f *finder) dir(d *place, path string, s State, after string, resume bool) (more bool, err error) {
	defer d.close()
	w := way{d: d, path: path, resume: resume, readable: d.readable()}
	w.skip, w.rest, _ = strings.Cut(after, "/")
	if names, known := f.p.names(s); known {
		return f.named(d, path, names, func(e Entry) (bool, error) {
			return f.through(&w, []sight{f.look(e, path, s)})
		})
	}
	if known := d.known.wait(); known != nil {
		defer f.scouts.drop(known)
		return f.through(&w, known.sights)
	}
	var ahead []sight
	compared := 0
	from := ""
	if resume {
		from = w.skip
	}
	for e, err := range d.list(f.ctx, from) {
		if err != nil {
			if path != "" {
				err = f.miss(d, path, err)
			}
			return err == nil, err
		}
		view := f.look(e, path, s)
		ahead, compared = append(ahead, view), compared+view.compared
		if len(ahead) < stretch && compared < stretch*unit {
			continue
		}
		if more, err := f.through(&w, ahead); !more || err != nil {
			return false, err
		}
		ahead, compared = ahead[:0], 0
	}
	return f.through(&w, ahead)
}

// through goes through entries of w's directory.
func (f *finder) through(w *way, ahead []sight) (more bool, err error) {
	for i := range ahead {
		f.compared += ahead[i].compared
		if w.resume && ahead[i].Name < w.skip {
			continue
		}
		if err := w.readable(); err != nil {
			if w.path != "" || fatal(err) { // else In asks once more
				err = f.miss(w.d, w.path, err)
			} else {
				err = nil
			}
			return err == nil, err
		}
		if more, err := f.one(w, ahead[i:]); !more || err != nil {
			return more, err
		}
	}
	return true, nil
}

// one visits the first entry of what lies ahead, and what is below it.
func (f *finder) one(w *way, ahead []sight) (more bool, err error) {
	s := &ahead[0]
	at := Join(w.path, s.Name)
	seen := w.resume && s.Name == w.skip
	if !seen && !f.found(at, s.Kind, f.p.Matched(s.next)) {
		return false, nil
	}
	if s.deep != nil {
		f.missed(at, s.deep)
	}
	if !s.into {
		return true, nil
	}
	if err := f.scouts.send(f, w.d, w.path, ahead); err != nil {
		err = f.miss(w.d, at, err)
		return err == nil, err
	}
	rest := ""
	if seen {
		rest = w.rest
	}
	return f.dir(&place{in: w.d, name: s.Name, known: s.below}, at, s.next, rest, rest != "")
}

// open reports whether something below a directory can match still.
func (f *finder) open(s State) bool {
	for _, at := range s {
		if !f.p.segs[at].end {
			return true
		}
	}
	return false
}

// named is the search for names that are known: it looks them up instead of
// listing.
func (f *finder) named(p *place, path string, names []string, entry func(Entry) (bool, error)) (bool, error) {
	d, err := p.open(f.ctx)
	if err != nil {
		err = f.miss(p, path, err)
		return err == nil, err
	}
	if d == nil {
		return true, nil
	}
	found := 0
	for _, name := range names {
		kind := Other
		n, err := d.Lookup(f.ctx, name)
		f.compared += unit // as much as a visit, found or not
		switch {
		case err == nil:
			kind = KindOf(n)
			n.Close()
		case CodeOf(err) == NotRegular:
		case CodeOf(err) == Invalid: // no entry can have this name
			continue
		default:
			if err := f.miss(p, Join(path, name), err); err != nil {
				return false, err
			}
			continue
		}
		found++
		if more, err := entry(Entry{name, kind}); !more || err != nil {
			return false, err
		}
	}
	if found == 0 && p.in != nil { // is it there at all? In asks that of the root
		if _, err = d.Stat(f.ctx); err != nil {
			err = f.miss(p, path, err)
		}
	}
	return err == nil, err
}
