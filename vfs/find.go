package vfs

import (
	"context"
	"strings"
)

// Find walks the tree below d in tree order (by name, in byte order, a
// directory before what it holds) and calls visit for every entry it looks at;
// hit says whether its path matches p, and work how much it took since the last
// visit: 1 for an entry of a plain pattern. It does not look where nothing can
// match, nor through links, nor into what it may not open or what lies deeper
// than a path can name. It begins after the path after, so that a search can go on where it stopped; "" begins at the
// start. It ends when visit returns false.
func Find(ctx context.Context, d Dir, p *Pattern, after string, visit func(path string, kind Kind, hit bool, work int) bool) error {
	f := finder{ctx: ctx, p: p, visit: visit}
	defer f.scouts.end()
	_, err := f.dir(&place{dir: d}, "", p.Start(), after, after != "")
	if err == nil { // d itself may be why nothing was found
		_, err = d.Stat(ctx)
	}
	return err
}

type finder struct {
	ctx    context.Context
	p      *Pattern
	visit  func(string, Kind, bool, int) bool
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
	below    *survey // what a scout found out about it, or will
}

// look says what becomes of the pattern at an entry of the directory at path.
func (f *finder) look(e Entry, path string, s State) sight {
	next, compared := f.p.step(s, e.Name)
	return sight{
		Entry: e, next: next, compared: compared,
		into: e.Kind == DirKind && f.open(next) && CheckPathSize(Join(path, e.Name)+"/") == nil,
	}
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
		return f.named(d, names, func(e Entry) (bool, error) {
			return f.through(&w, []sight{f.look(e, path, s)})
		})
	}
	if known := d.known.wait(); known != nil {
		defer f.scouts.drop(known)
		return f.through(&w, known.sights)
	}
	var ahead []sight
	compared := 0
	for e, err := range d.list(f.ctx) {
		if err != nil {
			if path == "" {
				return false, err
			}
			return !fatal(err), onlyFatal(err)
		}
		if resume && e.Name < w.skip {
			continue
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
			return !fatal(err), onlyFatal(err)
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
	if !s.into {
		return true, nil
	}
	if err := f.scouts.send(f, w.d, w.path, ahead); err != nil {
		return !fatal(err), onlyFatal(err)
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
func (f *finder) named(p *place, names []string, entry func(Entry) (bool, error)) (bool, error) {
	d, err := p.open(f.ctx)
	if err != nil {
		return !fatal(err), onlyFatal(err)
	}
	if d == nil {
		return true, nil
	}
	for _, name := range names {
		kind := Other
		n, err := d.Lookup(f.ctx, name)
		f.compared += unit // as much as a visit, found or not
		switch {
		case err == nil:
			kind = KindOf(n)
			n.Close()
		case fatal(err):
			return false, err
		case CodeOf(err) != NotRegular:
			continue
		}
		if more, err := entry(Entry{name, kind}); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

func onlyFatal(err error) error {
	if fatal(err) {
		return err
	}
	return nil
}
