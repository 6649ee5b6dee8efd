// Package search finds the paths of a tree that match a pattern. It reads ahead where
// the store can list several directories in one call, and it searches any [vfs.Dir].
package search

import (
	"context"
	"errors"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/ignore"
)

// Search looks through a tree for paths that match a pattern.
type Search struct {
	Pattern *Pattern
	// After is the path after which to begin, so that a search can continue where it
	// stopped. "" begins at the start.
	After string
	// IgnoreFiles says to leave out what the ignore files of the tree name; see
	// [ignore.Dir]. Those of the searched directory and below it count. Names that the
	// pattern spells out from its start are not left out.
	IgnoreFiles bool
	// Visit is called for every entry that the search looks at, in tree order: by name,
	// in byte order, a directory before its entries. hit says whether the path matches.
	// work is the work done since the last visit, at least 1; an entry costs 1 with a
	// simple pattern. The search ends when Visit returns false.
	Visit func(path string, kind vfs.Kind, hit bool, work int) bool
	// Missed may be nil. It is called for every directory that could not be listed
	// completely although something in it could match, and for every name spelled out
	// in the pattern that could not be looked up, and for every ignore file that does not
	// count although it is there. err has no path. Missed is not called
	// for what policy withholds or what has been removed. A search that continues an
	// earlier one may report the same path again.
	Missed func(path string, err error)
}

// In searches the tree below d. It does not enter directories in which nothing can
// match, and follows no links. It returns an error when d itself cannot be searched, or
// when every further lookup would fail with the same error.
func (s Search) In(ctx context.Context, d vfs.Dir) error {
	f := finder{Search: s, ctx: ctx}
	if f.Missed == nil {
		f.Missed = func(string, error) {}
	}
	defer f.prefetch.stop()
	root := &searchDir{dir: d, spelled: true, above: &ignore.Dir{}}
	_, err := f.dir(root, "", f.Pattern.Start(), s.After, s.After != "")
	if err == nil { // d itself may be why nothing was found
		err = searchable(ctx, d)
	}
	return err
}

// searchable returns the error with which d cannot be searched, or nil. A search needs the
// right to list, and not that to metadata.
func searchable(ctx context.Context, d vfs.Dir) error {
	r, ok := d.(revocable)
	if ok {
		if err := r.Readable("")(); err != nil {
			return err
		}
	}
	_, err := d.Stat(ctx)
	if ok && vfs.CodeOf(err) == vfs.Denied {
		return nil
	}
	return err
}

type finder struct {
	Search
	ctx      context.Context
	prefetch prefetcher

	compared int // bytes, since the last visit
}

// workUnit is how many compared bytes cost as much as one entry.
const workUnit = 512

// Work returns how many entries it costs as much as to compare that many bytes.
func Work(compared int) int { return compared / workUnit }

// found visits an entry.
func (f *finder) found(path string, kind vfs.Kind, hit bool) bool {
	work := 1 + f.compared/workUnit
	f.compared = 0
	return f.Visit(path, kind, hit, work)
}

// candidate is an entry that the search will visit, and the state of the pattern there.
type candidate struct {
	vfs.Entry
	next     State
	compared int      // bytes compared for it
	into     bool     // it is a directory in which something can match
	deep     error    // why the search does not enter it nevertheless
	below    *listing // its listing read ahead, if any; may be under way
}

// match applies the pattern to an entry of the directory at path, of which the ignore files
// say what out says; nil: nothing.
func (f *finder) match(e vfs.Entry, path string, s State, out *ignore.Dir) candidate {
	next, compared := f.Pattern.stepTo(nil, s, e.Name)
	v := candidate{Entry: e, next: next, compared: compared}
	if out != nil && len(next) > 0 {
		ignored, steps := out.Compare(e.Name, e.Kind == vfs.DirKind)
		if v.compared += steps; ignored {
			v.next = nil
			return v
		}
	}
	if e.Kind == vfs.DirKind && f.canMatch(next) {
		v.deep = vfs.CheckPathSize(vfs.Join(path, e.Name) + "/")
		v.into = v.deep == nil
	}
	return v
}

// miss reports that the directory at path could not be searched. It returns err when
// err ends the search. d is the directory there, or nil.
func (f *finder) miss(p *searchDir, path string, err error) error {
	switch {
	case fatal(err):
		return err
	case withheld(err), vfs.CodeOf(err) == vfs.NotFound, vfs.CodeOf(err) == vfs.NotDir, vfs.CodeOf(err) == vfs.NotRegular:
		return nil
	case vfs.CodeOf(err) == vfs.Stale && p != nil && p.gone(f.ctx):
		return nil
	}
	f.Missed(path, err)
	return nil
}

// withheld reports whether err is the answer that policy gives for a name whether or
// not it exists.
func withheld(err error) bool {
	e, said := errors.AsType[*vfs.Error](err)
	if !said {
		return vfs.CodeOf(err) == vfs.Denied
	}
	return e == vfs.ErrNoLinks || e.Code == vfs.Denied && e.Msg == deniedByPolicy
}

// deniedByPolicy is the message of an error that tells nothing besides denied.
var deniedByPolicy = vfs.At("", vfs.Denied).(*vfs.Error).Msg

// matchAhead is how many entries of a directory are matched before they are visited. It
// is fewer when the pattern costs more than that many work units.
const matchAhead = 256

// progress is how far the search has come in one directory. Entries before skip were
// visited by an earlier search, entries after it are new, and rest is how far that
// search came below skip.
type progress struct {
	d          *searchDir
	path       string
	skip, rest string
	resume     bool
	spelled    bool // the pattern spells its names out
	readable   func() error
}

// dir searches the directory d at path. resume says that what precedes after, relative
// to d, was visited before.
func (f *finder) dir(d *searchDir, path string, s State, after string, resume bool) (more bool, err error) {
	defer d.close()
	w := progress{d: d, path: path, resume: resume, readable: d.readable()}
	w.skip, w.rest, _ = strings.Cut(after, "/")
	if names, known := f.Pattern.names(s); known {
		if err := f.load(d, path, nil); err != nil {
			return false, err
		}
		out := d.out
		if w.spelled = d.spelled; d.spelled {
			out = nil
		}
		return f.named(d, path, names, func(e vfs.Entry) (bool, error) {
			return f.through(&w, []candidate{f.match(e, path, s, out)})
		})
	}
	if known := d.ahead.wait(); known != nil {
		defer f.prefetch.drop(known)
		d.out = known.out
		if err := f.loaded(path, known.loading); err != nil {
			return false, err
		}
		return f.through(&w, known.candidates)
	}
	var ahead []candidate
	compared := 0
	from := ""
	if resume {
		from = w.skip
	}
	for e, err := range f.list(d, path, from) {
		if err != nil {
			if path != "" {
				err = f.miss(d, path, err)
			}
			return err == nil, err
		}
		view := f.match(e, path, s, d.out)
		ahead, compared = append(ahead, view), compared+view.compared
		if len(ahead) < matchAhead && compared < matchAhead*workUnit {
			continue
		}
		if more, err := f.through(&w, ahead); !more || err != nil {
			return false, err
		}
		ahead, compared = ahead[:0], 0
	}
	return f.through(&w, ahead)
}

// through visits entries of w's directory.
func (f *finder) through(w *progress, ahead []candidate) (more bool, err error) {
	for i := range ahead {
		f.compared += ahead[i].compared
		if w.resume && ahead[i].Name < w.skip {
			continue
		}
		if err := w.readable(); err != nil {
			if w.path != "" || fatal(err) { // otherwise In asks once more
				err = f.miss(w.d, w.path, err)
			} else {
				err = nil
			}
			return err == nil, err
		}
		if more, err := f.visitFirst(w, ahead[i:]); !more || err != nil {
			return more, err
		}
	}
	return true, nil
}

// one visits the first of ahead and everything below it.
func (f *finder) visitFirst(w *progress, ahead []candidate) (more bool, err error) {
	s := &ahead[0]
	at := vfs.Join(w.path, s.Name)
	seen := w.resume && s.Name == w.skip
	if !seen && !f.found(at, s.Kind, f.Pattern.Matched(s.next)) {
		return false, nil
	}
	if s.deep != nil {
		f.Missed(at, s.deep)
	}
	if !s.into {
		return true, nil
	}
	if err := f.prefetch.start(f, w.d, w.path, ahead); err != nil {
		err = f.miss(w.d, at, err)
		return err == nil, err
	}
	rest := ""
	if seen {
		rest = w.rest
	}
	below := &searchDir{in: w.d, name: s.Name, ahead: s.below, spelled: w.spelled}
	if f.IgnoreFiles {
		below.above = w.d.out.Enter(s.Name)
	}
	return f.dir(below, at, s.next, rest, rest != "")
}

// canMatch reports whether something below a directory can still match.
func (f *finder) canMatch(s State) bool {
	return slices.ContainsFunc(s, func(at int32) bool { return !f.Pattern.segs[at].end })
}

// named searches for known names: it looks them up instead of listing the directory.
func (f *finder) named(p *searchDir, path string, names []string, entry func(vfs.Entry) (bool, error)) (bool, error) {
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
		if l, ok := d.(lister); ok && !l.Lists(name) {
			continue
		}
		kind := vfs.Other
		n, err := d.Lookup(f.ctx, name)
		f.compared += workUnit // as much as a visit, found or not
		switch {
		case err == nil:
			kind = vfs.KindOf(n)
			n.Close()
		case vfs.CodeOf(err) == vfs.NotRegular:
		case vfs.CodeOf(err) == vfs.Invalid: // no entry can have this name
			continue
		default:
			if err := f.miss(p, vfs.Join(path, name), err); err != nil {
				return false, err
			}
			continue
		}
		found++
		if more, err := entry(vfs.Entry{Name: name, Kind: kind}); !more || err != nil {
			return false, err
		}
	}
	if found == 0 && p.in != nil { // does it exist at all? In checks the root
		if err = searchable(f.ctx, d); err != nil {
			err = f.miss(p, path, err)
		}
	}
	return err == nil, err
}

// lister is a directory that leaves names out of its listings although they can be looked
// up.
type lister interface{ Lists(name string) bool }

// fatal reports an error that ends a search, since every further lookup would fail with
// it.
func fatal(err error) bool {
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired:
		return true
	case vfs.Limit: // of open nodes; a path that is too long fails only by itself
		return !errors.Is(err, vfs.ErrTooDeep) && !errors.Is(err, vfs.ErrTooLong)
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
