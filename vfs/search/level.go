package search

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/diff"
)

// list lists the directories of a level, several at once if there are many.
func (w *outliner) list(level []*branch) error {
	var groups [][]*branch
	for from := 0; from < len(level); {
		in, to := parent(level[from].Name), from+1
		for to < len(level) && to-from < 2*prefetchSide && parent(level[to].Name) == in {
			to++
		}
		groups = append(groups, level[from:to])
		from = to
	}
	side := 1
	if len(groups) > prefetchSide || len(level) > prefetchDirs {
		side = min(4, runtime.GOMAXPROCS(0))
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range side {
		workers.Go(func() {
			way := diff.NewCursor(w.root)
			defer way.Close()
			for i := int(next.Add(1)) - 1; i < len(groups) && w.ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				w.listGroup(way, groups[i])
			}
		})
	}
	workers.Wait()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	for _, b := range level {
		if err := w.settle(b); err != nil {
			return err
		}
	}
	if w.Yield != nil {
		return w.Yield()
	}
	return nil
}

// settle takes what was found out about b.
func (w *outliner) settle(b *branch) error {
	if b.err != nil {
		if b.Name == "" {
			return b.err
		}
		if err := w.f.miss(nil, b.Name, b.err); err != nil {
			return err
		}
	}
	for _, m := range b.loading.failed {
		if err := w.f.miss(nil, vfs.Join(b.Name, m.name), m.err); err != nil {
			return err
		}
	}
	return nil
}

// listGroup lists directories that are in the same directory.
func (w *outliner) listGroup(way *diff.Cursor, group []*branch) {
	if int(w.looked.Load()) >= w.Work {
		for _, b := range group {
			b.AtLeast = true
		}
		return
	}
	if group[0].Name == "" {
		w.listOne(group[0], w.root)
		return
	}
	in, err := way.Dir(w.ctx, parent(group[0].Name))
	if err != nil {
		for _, b := range group {
			b.err = err
		}
		return
	}
	names := make([]string, len(group))
	for i, b := range group {
		names[i] = base(b.Name)
	}
	at := 0
	_ = vfs.Scan(w.ctx, in, names, prefetchNames, func(name string, entries []vfs.Entry, ok bool) {
		for at < len(group) && names[at] != name {
			at++
		}
		if at < len(group) && ok {
			group[at].found, group[at].listed = entries, true
			w.looked.Add(int64(len(entries)))
		}
	})
	for i, b := range group {
		if b.listed {
			if w.IgnoreFiles {
				if b.loading, b.err = loadIn(w.ctx, in, names[i], b.out, b.found); b.err != nil {
					b.found = nil
					continue
				}
				b.out = b.loading.out
				w.looked.Add(int64(b.loading.read / workUnit))
			}
			w.keep(b)
			continue
		}
		d, err := vfs.LookupAs[vfs.Dir](w.ctx, in, names[i], vfs.NotDir)
		if err != nil {
			b.err = err
			continue
		}
		w.listOne(b, d)
		d.Close()
	}
}

// listOne lists b, which is d.
func (w *outliner) listOne(b *branch, d vfs.Dir) {
	for e, err := range d.List(w.ctx) {
		if err != nil {
			b.err, b.found = err, nil
			return
		}
		if int(w.looked.Load()) >= w.Work {
			b.AtLeast = true
			break
		}
		w.looked.Add(1)
		b.found = append(b.found, e)
	}
	if w.IgnoreFiles {
		has := in(b.found)
		if b.AtLeast {
			has = nil
		}
		b.loading = load(w.ctx, d, b.out, has)
		b.out = b.loading.out
		w.looked.Add(int64(b.loading.read / workUnit))
	}
	w.keep(b)
}

// keep keeps of what was found in b what is not left out.
func (w *outliner) keep(b *branch) {
	kept, compared := b.found[:0], 0
	for _, e := range b.found {
		if w.NoHidden && strings.HasPrefix(e.Name, ".") {
			continue
		}
		if w.IgnoreFiles {
			ignored, steps := b.out.Compare(e.Name, e.Kind == vfs.DirKind)
			if compared += steps; ignored {
				continue
			}
		}
		kept = append(kept, e)
	}
	b.Left = len(b.found) - len(kept)
	b.found = kept
	w.looked.Add(int64(compared / workUnit))
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }
func base(path string) string   { return path[strings.LastIndexByte(path, '/')+1:] }
