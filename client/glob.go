package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Glob yields what matches pattern below d, in tree order: Name is the path and
// Kind is set. An error is the last thing yielded; an [*Unlisted] when all was
// yielded that could be found.
func (d *Dir) Glob(ctx context.Context, pattern string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		after := ""
		var missed Unlisted
		for {
			p, err := d.globPage(ctx, pattern, after)
			if err != nil {
				yield(vfs.Entry{}, err)
				return
			}
			for _, e := range p.entries {
				if !inTreeOrder(after, e.Name) {
					yield(vfs.Entry{}, errNames)
					return
				}
				after = e.Name
				if !yield(vfs.Entry{Name: e.Name, Kind: e.Kind}, nil) {
					return
				}
			}
			missed.add(p.missed)
			if !p.more {
				if len(missed.Errors) > 0 {
					yield(vfs.Entry{}, &missed)
				}
				return
			}
			// The search has to come forward, or it could go on for ever.
			if p.cursor != after && !inTreeOrder(after, p.cursor) || p.cursor == after && len(p.entries) == 0 {
				yield(vfs.Entry{}, vfs.Errorf(vfs.Corrupt, "the host answered a search that does not come forward"))
				return
			}
			after = p.cursor
		}
	}
}

// Unlisted is what a search could not look into, where something could match. What
// policy withholds is not in it.
type Unlisted struct {
	// Errors are [*vfs.Error] with their paths, at most 1000, in the order of the
	// search.
	Errors []error
	// More is how many there are beyond those.
	More int
}

const maxUnlisted = 1000

func (u *Unlisted) add(all []error) {
	for _, err := range all {
		last := len(u.Errors) - 1
		if last >= 0 && pathOf(u.Errors[last]) == pathOf(err) {
			continue // told again, on the next page
		}
		if last+1 == maxUnlisted {
			u.More++
			continue
		}
		u.Errors = append(u.Errors, err)
	}
}

func pathOf(err error) string {
	if e, ok := errors.AsType[*vfs.Error](err); ok {
		return e.Path
	}
	return ""
}

// Error is the first error, and how many there are beside it.
func (u *Unlisted) Error() string {
	text := u.Errors[0].Error()
	if n := len(u.Errors) - 1 + u.More; n > 0 {
		text += fmt.Sprintf(" (and %d more that could not be listed)", n)
	}
	return text
}

// Unwrap implements the interface of package errors.
func (u *Unlisted) Unwrap() []error { return u.Errors }

type globPage struct {
	entries []Entry
	missed  []error
	more    bool
	cursor  string
}

// globLimit is how many paths are asked for at once: the host finds its way back to
// where it stopped for each page.
const globLimit = 10_000

func (d *Dir) globPage(ctx context.Context, pattern, after string) (page globPage, err error) {
	if err := d.at(pattern); err != nil {
		return page, err
	}
	err = do(ctx, d.cap, schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
		p.SetLimit(globLimit)
		return first(p.SetAfter([]byte(after)), p.SetPattern(pattern))
	}, func(r schema.Dir_glob_Results, _ *vat.Caps) error {
		page.more = r.More()
		c, err := r.Cursor()
		if err != nil {
			return err
		}
		page.cursor = string(c)
		l, err := r.Entries()
		if err != nil {
			return err
		}
		if page.entries, err = entries(l); err != nil {
			return err
		}
		page.missed, err = unlisted(r)
		return err
	})
	return page, err
}

func unlisted(r schema.Dir_glob_Results) ([]error, error) {
	l, err := r.Missed()
	if err != nil {
		return nil, err
	}
	if l.Len() > wire.MaxPage+64 { // the alternatives of one pattern are looked up together
		return nil, vfs.Errorf(vfs.Corrupt, "the host answered that it missed %d directories in one page", l.Len())
	}
	var all []error
	for i := range l.Len() {
		path, why, err := wire.Missed(l.At(i))
		if err != nil {
			return nil, err
		}
		if _, err := vfs.SplitPath(path); err != nil {
			return nil, errNames
		}
		all = append(all, why)
	}
	return all, nil
}

// inTreeOrder reports whether path is one, and comes after the path before ("":
// the start) in tree order.
func inTreeOrder(before, path string) bool {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return false
	}
	return before == "" || slices.Compare(strings.Split(before, "/"), names) < 0
}
