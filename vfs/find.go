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
	_, err := f.dir(d, "", p.Start(), after, after != "")
	if err == nil { // d itself may be why nothing was found
		_, err = d.Stat(ctx)
	}
	return err
}

type finder struct {
	ctx   context.Context
	p     *Pattern
	visit func(string, Kind, bool, int) bool

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

// dir searches one directory, which is at path. resume says that what precedes
// after, relative to the directory, was seen before.
func (f *finder) dir(d Dir, path string, s State, after string, resume bool) (more bool, err error) {
	skip, rest, _ := strings.Cut(after, "/")
	entry := func(e Entry) (bool, error) {
		switch {
		case resume && e.Name < skip:
			return true, nil
		case resume && e.Name > skip:
			resume = false
		}
		next, compared := f.p.step(s, e.Name)
		f.compared += compared
		at := Join(path, e.Name)
		if !resume && !f.found(at, e.Kind, f.p.Matched(next)) {
			return false, nil
		}
		if e.Kind != DirKind || !f.open(next) || checkPathSize(at+"/") != nil {
			return true, nil
		}
		n, err := d.Lookup(f.ctx, e.Name)
		if err != nil {
			return !fatal(err), onlyFatal(err)
		}
		defer n.Close()
		sub, ok := n.(Dir)
		if !ok {
			return true, nil
		}
		return f.dir(sub, at, next, rest, resume && rest != "")
	}
	if names, known := f.p.names(s); known {
		return f.named(d, names, entry)
	}
	for e, err := range d.List(f.ctx) {
		if err != nil {
			if path == "" {
				return false, err
			}
			return !fatal(err), onlyFatal(err)
		}
		if more, err := entry(e); !more || err != nil {
			return false, err
		}
	}
	return true, nil
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
func (f *finder) named(d Dir, names []string, entry func(Entry) (bool, error)) (bool, error) {
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
