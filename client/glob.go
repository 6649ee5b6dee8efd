package client

import (
	"context"
	"iter"
	"slices"
	"strings"

	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Glob yields what matches pattern below d, in tree order: Name is the path and
// Kind is set. An error is the last thing yielded.
func (d *Dir) Glob(ctx context.Context, pattern string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		after := ""
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
			if !p.more {
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

type globPage struct {
	entries []Entry
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
		page.entries, err = entries(l)
		return err
	})
	return page, err
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
