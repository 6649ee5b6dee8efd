package physical

import (
	"context"
	"iter"

	"capd/meter"
	"capd/vfs"
)

// listBytes is how many bytes of entries a listing keeps in memory; before sorting it
// collects up to twice as many. A larger directory is read again for each part. Tests
// make it smaller.
var listBytes = 8 << 20

// entryBytes is the size of an entry without its name.
const entryBytes = 40

// List reads all names before it yields the first. Of a large directory it reads the
// next names that fit into 8 MiB. It has no descriptor open while it yields.
func (d *Dir) List(ctx context.Context) iter.Seq2[vfs.Entry, error] { return d.ListFrom(ctx, "") }

// ListFrom implements vfs.FromLister.
func (d *Dir) ListFrom(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for first := true; first || from != ""; first = false {
			part, err := d.gather(ctx, from)
			if err != nil {
				yield(vfs.Entry{}, err)
				return
			}
			for _, e := range part.all {
				if err := d.usable(ctx); err != nil {
					yield(vfs.Entry{}, err)
					return
				}
				if !yield(e, nil) {
					return
				}
			}
			from = part.end
		}
	}
}

// gather reads the part of the directory that begins with the name from.
func (d *Dir) gather(ctx context.Context, from string) (*gathering, error) {
	dir, err := d.enter(ctx, d.at)
	if err != nil {
		return nil, err
	}
	defer d.s.leave(dir)
	g := &gathering{from: from}
	err = dir.entries(func(some []vfs.Entry) error {
		g.add(some)
		if err := meter.Yield(ctx); err != nil {
			return err
		}
		return d.usable(ctx)
	})
	if err != nil {
		return nil, gone(err)
	}
	g.cut(listBytes)
	return g, nil
}

// gathering is a part of a directory: the first entries from a name on. The file system
// returns them in no order.
type gathering struct {
	from  string // the name
	end   string // the name with which the next part begins; "" if this is the last
	all   []vfs.Entry
	bytes int
}

func (g *gathering) add(some []vfs.Entry) {
	for _, e := range some {
		if e.Name < g.from || g.end != "" && e.Name >= g.end || hidden(e.Name) {
			continue
		}
		g.all = append(g.all, e)
		g.bytes += len(e.Name) + entryBytes
	}
	if g.bytes > 2*listBytes {
		g.cut(listBytes)
	}
}

// cut sorts what was gathered, and keeps the first entries, at least one, that fit into
// most bytes.
func (g *gathering) cut(most int) {
	g.all = listed(g.all)
	bytes := 0
	for i, e := range g.all {
		size := len(e.Name) + entryBytes
		if bytes+size > most && i > 0 {
			g.end, g.bytes = e.Name, bytes
			clear(g.all[i:])
			g.all = g.all[:i]
			return
		}
		bytes += size
	}
}
