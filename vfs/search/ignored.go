package search

import (
	"context"
	"iter"
	"slices"

	"capd/vfs"
	"capd/vfs/ignore"
)

// loading is what became of the ignore files of one directory.
type loading struct {
	out    *ignore.Dir // what they and those above say
	rules  int         // how many rules they have
	read   int         // bytes
	failed []failed    // those that do not count
}

type failed struct {
	name string
	err  error
}

// load reads the ignore files of d, the directory in which above is what those above say. has
// reports whether d has an entry; nil: look.
func load(ctx context.Context, d vfs.Dir, above *ignore.Dir, has func(string) bool) (l loading) {
	l.out, l.read = above.Load(ctx, d, has, func(name string, err error) { l.failed = append(l.failed, failed{name, err}) })
	l.rules = max(0, l.out.Rules()-above.Rules())
	return l
}

// loadIn is load for the directory called name in d, which has the entries. It fails if that
// cannot be opened.
func loadIn(ctx context.Context, d vfs.Dir, name string, above *ignore.Dir, entries []vfs.Entry) (loading, error) {
	if !slices.ContainsFunc(upToLast(entries), isFile) {
		return loading{out: above}, nil
	}
	n, err := vfs.LookupAs[vfs.Dir](ctx, d, name, vfs.NotDir)
	if err != nil {
		return loading{}, err
	}
	defer n.Close()
	return load(ctx, n, above, in(entries)), nil
}

func isFile(e vfs.Entry) bool { return ignore.IsFile(e.Name) }

// upToLast returns those of a directory's first entries that can be ignore files.
func upToLast(entries []vfs.Entry) []vfs.Entry {
	i, _ := slices.BinarySearchFunc(entries, ignore.LastFile+"\x00", byName)
	return entries[:i]
}

func byName(e vfs.Entry, name string) int {
	switch {
	case e.Name < name:
		return -1
	case e.Name > name:
		return 1
	}
	return 0
}

// in returns a function that reports whether entries has a name.
func in(entries []vfs.Entry) func(string) bool {
	return func(name string) bool {
		_, found := slices.BinarySearchFunc(entries, name, byName)
		return found
	}
}

// loaded reports the ignore files of the directory at path that do not count.
func (f *finder) loaded(path string, l loading) error {
	f.compared += l.read
	for _, m := range l.failed {
		if err := f.miss(nil, vfs.Join(path, m.name), m.err); err != nil {
			return err
		}
	}
	return nil
}

// load sets what the ignore files say in d, which is at path.
func (f *finder) load(d *searchDir, path string, has func(string) bool) error {
	if !f.IgnoreFiles {
		return nil
	}
	d.out = d.above
	in, err := d.open(f.ctx)
	if err != nil || in == nil {
		return nil // the search itself fails likewise
	}
	l := load(f.ctx, in, d.above, has)
	d.out = l.out
	return f.loaded(path, l)
}

// list lists d, which is at path, from a name on. It reads the ignore files before it yields
// an entry.
func (f *finder) list(d *searchDir, path, from string) iter.Seq2[vfs.Entry, error] {
	if !f.IgnoreFiles {
		return d.list(f.ctx, from)
	}
	return func(yield func(vfs.Entry, error) bool) {
		if from != "" {
			if err := f.load(d, path, nil); err != nil {
				yield(vfs.Entry{}, err)
				return
			}
		}
		var first []vfs.Entry // until it is known which ignore files there are
		known := from != ""
		settle := func(has func(string) bool) bool {
			known = true
			d.out = d.above
			if has == nil || slices.ContainsFunc(first, isFile) {
				if err := f.load(d, path, has); err != nil {
					yield(vfs.Entry{}, err)
					return false
				}
			}
			for _, e := range first {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		for e, err := range d.list(f.ctx, from) {
			if err == nil && !known {
				first = append(first, e)
				switch {
				case e.Name > ignore.LastFile:
					if !settle(in(first)) {
						return
					}
				case len(first) == matchAhead:
					if !settle(nil) {
						return
					}
				}
				continue
			}
			if err != nil && !known && !settle(in(first)) {
				return
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		if !known {
			settle(in(first))
		}
	}
}
