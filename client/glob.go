package client

import (
	"cmp"
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

// Glob yields what matches pattern below d, in tree order: each entry has its path as
// Name, and its Kind. leave says what to leave out. An error is the last thing yielded. It
// is an [*Unlisted] if everything else was yielded but some directories could not be listed.
func (d *Dir) Glob(ctx context.Context, pattern string, leave ...Leave) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		after := ""
		var missed Unlisted
		for {
			p, err := d.globPage(ctx, pattern, after, leave)
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
			// The host has to move the cursor forward, or the search would never end.
			if p.cursor != after && !inTreeOrder(after, p.cursor) || p.cursor == after && len(p.entries) == 0 {
				yield(vfs.Entry{}, vfs.Errorf(vfs.Corrupt, "the host answered a search that makes no progress"))
				return
			}
			after = p.cursor
		}
	}
}

// Leave is something that a search leaves out.
type Leave uint8

// What a search can leave out. Neither is left out where the search names it.
const (
	// LeaveIgnored leaves out what .gitignore, .ignore and .git/info/exclude name, in the
	// searched directory and below, and .git itself.
	LeaveIgnored Leave = 1 + iota
	// LeaveHidden leaves out names that begin with a dot.
	LeaveHidden
)

// Unlisted is the error of a search that could not list some directories where
// something might match. It does not include what policy withholds.
type Unlisted struct {
	// Errors holds one [*vfs.Error] with its path for each of them, at most 1000, in
	// the order of the search.
	Errors []error
	// More is the number of those beyond Errors.
	More int
}

const maxUnlisted = 1000

func (u *Unlisted) add(all []error) {
	for _, err := range all {
		last := len(u.Errors) - 1
		if last >= 0 && pathOf(u.Errors[last]) == pathOf(err) {
			continue // repeated on the next page
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

// Error returns the first error, and the number of the others.
func (u *Unlisted) Error() string {
	text := u.Errors[0].Error()
	if n := len(u.Errors) - 1 + u.More; n > 0 {
		text += fmt.Sprintf(" (and %d more that could not be listed)", n)
	}
	return text
}

// Unwrap lets errors.Is and errors.As look at each error.
func (u *Unlisted) Unwrap() []error { return u.Errors }

type globPage struct {
	entries []Entry
	missed  []error
	more    bool
	cursor  string
}

// globLimit is the number of paths to ask for at once. It is large because the host
// searches its way back to the cursor for each page.
const globLimit = 10_000

func (d *Dir) globPage(ctx context.Context, pattern, after string, leave []Leave) (page globPage, err error) {
	if err := d.at(pattern); err != nil {
		return page, err
	}
	err = wire.Do(ctx, d.cap, schema.Dir_glob, func(p schema.Dir_glob_Params, _ *vat.Caps) error {
		p.SetLimit(globLimit)
		p.SetIgnoreFiles(slices.Contains(leave, LeaveIgnored))
		p.SetNoHidden(slices.Contains(leave, LeaveHidden))
		return cmp.Or(p.SetAfter([]byte(after)), p.SetPattern(pattern))
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
		page.missed, err = missedIn(r.Missed())
		return err
	})
	return page, err
}

// missedIn reads what a search could not look at.
func missedIn(l schema.Missed_List, err error) ([]error, error) {
	if err != nil {
		return nil, err
	}
	if l.Len() > wire.MaxPage+64 { // the alternatives of a pattern may add some
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

// inTreeOrder reports whether path is valid and comes after before in tree order. The
// empty before is the start.
func inTreeOrder(before, path string) bool {
	names, err := vfs.SplitPath(path)
	if err != nil {
		return false
	}
	return before == "" || slices.Compare(strings.Split(before, "/"), names) < 0
}
