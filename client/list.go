package client

import (
	"context"
	"iter"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// List implements vfs.Dir. It asks for one page after the other.
func (d *Dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for s, err := range d.Entries(ctx, false) {
			if !yield(vfs.Entry{Name: s.Name, Kind: s.Kind}, err) || err != nil {
				return
			}
		}
	}
}

// Entry is a name in a directory, its kind, and, if asked for, its size, time and
// executable bit.
type Entry = vfs.InfoEntry

// WalkList implements [vfs.ListWalker], in one call for each page.
func (d *Dir) WalkList(ctx context.Context, path string, withInfo bool) iter.Seq2[vfs.InfoEntry, error] {
	if path == "" {
		return d.Entries(ctx, withInfo)
	}
	return func(yield func(vfs.InfoEntry, error) bool) {
		sub := d.SubDir(path)
		defer sub.Close()
		for e, err := range sub.Entries(ctx, withInfo) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// Entries yields the entries in byte order of names, with their stats if withStat is
// true. An error is the last thing yielded.
func (d *Dir) Entries(ctx context.Context, withStat bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		after := ""
		for {
			page, more, err := d.page(ctx, after, withStat)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				if e.Name <= after || vfs.CheckName(e.Name) != nil {
					yield(Entry{}, errNames)
					return
				}
				after = e.Name
				if !yield(e, nil) {
					return
				}
			}
			if !more {
				return
			}
			if len(page) == 0 { // or the loop might never end
				yield(Entry{}, vfs.Errorf(vfs.Corrupt, "the host answered an empty page and said that there is more"))
				return
			}
		}
	}
}

var errNames = vfs.Errorf(vfs.Corrupt, "the host answered invalid names, or names out of order")

func (d *Dir) page(ctx context.Context, after string, withStat bool) (page []Entry, more bool, err error) {
	err = do(ctx, &d.ref, schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error {
		p.SetWithStat(withStat)
		return p.SetAfter([]byte(after))
	}, func(r schema.Dir_list_Results, _ *vat.Caps) error {
		more = r.More()
		l, err := r.Entries()
		if err != nil {
			return err
		}
		page, err = entries(l)
		return err
	})
	return page, more, err
}

func entries(l schema.Stat_List) ([]Entry, error) {
	if l.Len() > wire.MaxPage { // empty elements take no room in a message
		return nil, vfs.Errorf(vfs.Corrupt, "the host answered a page of %d entries", l.Len())
	}
	out := make([]Entry, l.Len())
	for i := range out {
		var err error
		if out[i], err = entryOf(l.At(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func entryOf(st schema.Stat) (Entry, error) {
	name, err := wire.Name(st)
	if err != nil {
		return Entry{}, err
	}
	info, err := wire.Info(st)
	return Entry{Name: name, Info: info, Known: st.Looked()}, err
}
