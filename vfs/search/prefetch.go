package search

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/ignore"
)

// prefetcher lists directories before the search reaches them, several at once. The
// search still visits them in its own order.
type prefetcher struct {
	ctx     context.Context
	cancel  context.CancelFunc
	free    chan struct{} // made for the first job
	running sync.WaitGroup
	held    atomic.Int64 // names that were listed and not visited yet
}

// Bounds of one job: how many directories side by side, how many in all, and how many
// names in each. The search itself lists a larger directory. A job also ends once
// matching has cost prefetchSide*prefetchNames work units. No job starts while more
// than prefetchHeld names are waiting.
const (
	prefetchSide  = 8
	prefetchDirs  = 64
	prefetchNames = 1024
	prefetchHeld  = 1 << 16
)

// listing is what was read ahead of one directory.
type listing struct {
	listed     bool        // it was read, and may not be matched yet
	whole      bool        // candidates is the whole directory; false if it could not be read
	into       bool        // something below it has to be searched
	candidates []candidate // a later job may go deeper from these
	loading                // of its ignore files
	done       chan struct{}
}

// wait waits for the job, and returns nil when it brought nothing.
func (v *listing) wait() *listing {
	if v == nil {
		return nil
	}
	<-v.done
	if !v.whole {
		return nil
	}
	return v
}

// closedChan is the done of a listing that came with another.
var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// job is a directory to be listed.
type job struct {
	name string
	next State
	*listing
}

// start starts jobs for directories ahead in d while there are free places. The first
// job is for the directory that the search is about to enter.
func (s *prefetcher) start(f *finder, d *searchDir, path string, ahead []candidate) error {
	if s.held.Load() > prefetchHeld {
		return nil
	}
	var in vfs.Dir
	for i := 0; i < len(ahead); {
		var group []job
		for ; i < len(ahead) && len(group) < prefetchSide; i++ {
			a := &ahead[i]
			if !a.into || a.below != nil && !a.below.further() {
				continue
			}
			if a.below != nil && len(group) > 0 {
				break // a job of its own
			}
			group = append(group, job{a.Name, a.next, a.below})
			if a.below != nil {
				i++
				break
			}
		}
		if len(group) == 0 {
			return nil
		}
		if in == nil {
			var err error
			if in, err = d.open(f.ctx); err != nil || in == nil {
				return err
			}
			if _, ok := in.(vfs.Scanner); !ok {
				return nil
			}
		}
		if !s.acquire(f) {
			return nil // all places are taken: the search goes on, and tries again
		}
		done := make(chan struct{})
		first := i - 1
		for k := len(group) - 1; k >= 0; first-- {
			if a := &ahead[first]; a.Name == group[k].name {
				if group[k].listing == nil {
					group[k].listing = &listing{}
				}
				group[k].done = done
				a.below = group[k].listing
				k--
			}
		}
		s.running.Go(func() {
			defer func() { <-s.free }()
			defer close(done)
			budget := prefetchDirs
			s.explore(f, in, path, d.out, group, &budget)
		})
	}
	return nil
}

// further reports whether another job would bring more, because the first had time to
// list only one level.
func (v *listing) further() bool {
	select {
	case <-v.done:
	default:
		return false // the first has not ended
	}
	if !v.whole || !v.into {
		return false
	}
	for i := range v.candidates {
		if v.candidates[i].into {
			return v.candidates[i].below == nil
		}
	}
	return false
}

// acquire takes a free place, if there is one.
func (s *prefetcher) acquire(f *finder) bool {
	if s.free == nil {
		s.free = make(chan struct{}, min(4, runtime.GOMAXPROCS(0)))
		s.ctx, s.cancel = context.WithCancel(f.ctx)
	}
	select {
	case s.free <- struct{}{}:
		return true
	default:
		return false
	}
}

// explore lists the directories of all jobs in d, which is at path, and then enters
// each as far as budget allows. out is what the ignore files say in d.
func (s *prefetcher) explore(f *finder, d vfs.Dir, path string, out *ignore.Dir, all []job, budget *int) {
	var names []string
	for _, e := range all {
		if !e.whole {
			names = append(names, e.name)
		}
	}
	at := 0
	found := make([][]vfs.Entry, len(all))
	_ = vfs.Scan(s.ctx, d, names, prefetchNames, func(name string, entries []vfs.Entry, ok bool) {
		for at < len(all) && all[at].name != name {
			at++
		}
		if at < len(all) && ok {
			found[at] = entries
			all[at].listed = true
		}
	})
	compared := 0
	for i, e := range all {
		if e.listed && !e.whole && !s.fill(f, d, path, out, e, found[i], &compared) {
			*budget = 0
			break
		}
	}
	*budget -= len(names)
	for _, e := range all {
		if !e.whole || !e.into || *budget <= 0 || s.held.Load() > prefetchHeld || s.ctx.Err() != nil {
			continue
		}
		n, err := d.Lookup(s.ctx, e.name)
		if err != nil {
			continue
		}
		if sub, ok := n.(vfs.Dir); ok {
			s.below(f, sub, vfs.Join(path, e.name), e.listing, budget)
		}
		n.Close()
	}
}

// fill matches the entries of the directory e in d, which is at path. It reports whether the
// job may go on.
func (s *prefetcher) fill(f *finder, d vfs.Dir, path string, out *ignore.Dir, e job, entries []vfs.Entry, compared *int) bool {
	if f.IgnoreFiles {
		var err error
		if e.loading, err = loadIn(s.ctx, d, e.name, out.Enter(e.name), entries); err != nil {
			return true // the search itself lists it
		}
		*compared += e.read
	}
	below := vfs.Join(path, e.name)
	e.candidates = make([]candidate, len(entries))
	for i, entry := range entries {
		if *compared > prefetchSide*prefetchNames*workUnit || s.ctx.Err() != nil {
			return false
		}
		e.candidates[i] = f.match(entry, below, e.next, e.out)
		*compared += e.candidates[i].compared
		e.into = e.into || e.candidates[i].into
	}
	e.whole = true
	s.held.Add(e.weight())
	return true
}

// below explores directories among the candidates of v, which is at path and is d.
func (s *prefetcher) below(f *finder, d vfs.Dir, path string, v *listing, budget *int) {
	var all []job
	for i := range v.candidates {
		if a := &v.candidates[i]; a.into && a.below == nil && len(all) < *budget {
			a.below = &listing{done: closedChan}
			all = append(all, job{a.Name, a.next, a.below})
		}
	}
	s.explore(f, d, path, v.out, all, budget)
}

// weight is how much of the memory for listings read ahead v takes: its names, and the rules
// of its ignore files.
func (v *listing) weight() int64 { return int64(len(v.candidates) + v.rules) }

// drop uncounts a listing that was visited.
func (s *prefetcher) drop(v *listing) { s.held.Add(-v.weight()) }

// stop waits until every job has ended.
func (s *prefetcher) stop() {
	if s.cancel != nil {
		s.cancel()
		s.running.Wait()
	}
}

// searchDir is a directory of the search. It is opened only when needed.
type searchDir struct {
	dir   vfs.Dir // nil until it is opened
	in    *searchDir
	name  string
	ahead *listing // nil, or the listing read ahead

	spelled    bool        // the pattern spells out its path
	above, out *ignore.Dir // what ignore files say in it, without and with its own; unused without Search.IgnoreFiles
}

// open returns the directory, or nil if it is none. The caller does not close it.
func (p *searchDir) open(ctx context.Context) (vfs.Dir, error) {
	if p.dir != nil {
		return p.dir, nil
	}
	in, err := p.in.open(ctx)
	if err != nil || in == nil {
		return nil, err
	}
	n, err := in.Lookup(ctx, p.name)
	if err != nil {
		return nil, err
	}
	if d, ok := n.(vfs.Dir); ok {
		p.dir = d
		return d, nil
	}
	return nil, n.Close()
}

// gone reports whether the name that d was opened by no longer leads to a directory.
func (p *searchDir) gone(ctx context.Context) bool {
	if p.in == nil {
		return false
	}
	in, err := p.in.open(ctx)
	if err != nil || in == nil {
		return false
	}
	n, err := in.Lookup(ctx, p.name)
	if err != nil {
		return vfs.CodeOf(err) == vfs.NotFound || vfs.CodeOf(err) == vfs.Stale && p.in.gone(ctx)
	}
	n.Close()
	return vfs.KindOf(n) != vfs.DirKind
}

// close closes what open opened.
func (p *searchDir) close() {
	if p.dir != nil && p.in != nil {
		p.dir.Close()
	}
}

// list lists it from a name on.
func (p *searchDir) list(ctx context.Context, from string) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		d, err := p.open(ctx)
		if err != nil {
			yield(vfs.Entry{}, err)
		} else if d != nil {
			vfs.ListFrom(ctx, d, from)(yield)
		}
	}
}

// revocable is a Dir that may no longer be read at some time, such as one behind a
// membrane. Readable returns a function that reports whether entries of the directory at
// path below it may still be shown.
type revocable interface {
	Readable(path string) func() error
}

// readable returns a function that reports whether the listing may still be shown.
func (p *searchDir) readable() func() error {
	path := ""
	for p.dir == nil {
		path = vfs.Join(p.name, path)
		p = p.in
	}
	if d, ok := p.dir.(revocable); ok {
		return d.Readable(strings.TrimSuffix(path, "/"))
	}
	return func() error { return nil }
}
