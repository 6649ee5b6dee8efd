package vfs

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
)

// scouts list directories before the search comes to them, several at once. What
// they bring is looked at in the search's own order.
type scouts struct {
	ctx  context.Context
	stop context.CancelFunc
	free chan struct{} // made when the first goes
	out  sync.WaitGroup
	held atomic.Int64 // names that were brought and not looked at yet
}

// How far a scout goes: so many directories side by side, so many in all, and so many
// names of each. A directory with more is left to the search, and so is all of it once
// the pattern has been more work than that many units. None goes while so many names are
// held.
const (
	scoutSide  = 8
	scoutDirs  = 64
	scoutNames = 1024
	scoutHeld  = 1 << 16
)

// survey is what scouts find out about a directory.
type survey struct {
	whole  bool    // sights is all that it lists; otherwise it could not be told
	into   bool    // something below it has to be searched
	sights []sight // which a second scout may send further
	done   chan struct{}
}

// wait waits for the scout, and returns nil when there is nothing to be had.
func (v *survey) wait() *survey {
	if v == nil {
		return nil
	}
	<-v.done
	if !v.whole {
		return nil
	}
	return v
}

// here is done's for what a scout brings with something else.
var here = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// errand is a directory that a scout goes to.
type errand struct {
	name string
	next State
	*survey
}

// send lets scouts go to what lies ahead in d, as long as there are free ones: the
// first goes where the search itself is about to.
func (s *scouts) send(f *finder, d *place, path string, ahead []sight) error {
	if s.held.Load() > scoutHeld {
		return nil
	}
	var in Dir
	for i := 0; i < len(ahead); {
		var group []errand
		for ; i < len(ahead) && len(group) < scoutSide; i++ {
			a := &ahead[i]
			if !a.into || a.below != nil && !a.below.further() {
				continue
			}
			if a.below != nil && len(group) > 0 {
				break // that is an errand by itself
			}
			group = append(group, errand{a.Name, a.next, a.below})
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
			if _, ok := in.(Scanner); !ok {
				return nil
			}
		}
		if !s.start(f) {
			return nil // all are out: the search goes on, and sends them again
		}
		done := make(chan struct{})
		first := i - 1
		for k := len(group) - 1; k >= 0; first-- {
			if a := &ahead[first]; a.Name == group[k].name {
				if group[k].survey == nil {
					group[k].survey = &survey{}
				}
				group[k].done = done
				a.below = group[k].survey
				k--
			}
		}
		s.out.Go(func() {
			defer func() { <-s.free }()
			defer close(done)
			budget := scoutDirs
			s.explore(f, in, path, group, &budget)
		})
	}
	return nil
}

// further reports whether a scout that goes again would bring more: the first had only
// time to list.
func (v *survey) further() bool {
	select {
	case <-v.done:
	default:
		return false // it is not back
	}
	if !v.whole || !v.into {
		return false
	}
	for i := range v.sights {
		if v.sights[i].into {
			return v.sights[i].below == nil
		}
	}
	return false
}

// start takes a free scout, if there is one.
func (s *scouts) start(f *finder) bool {
	if s.free == nil {
		s.free = make(chan struct{}, min(4, runtime.GOMAXPROCS(0)))
		s.ctx, s.stop = context.WithCancel(f.ctx)
	}
	select {
	case s.free <- struct{}{}:
		return true
	default:
		return false
	}
}

// explore lists the directories of all errands in d, which is at path, and then goes
// into each, as far as budget allows.
func (s *scouts) explore(f *finder, d Dir, path string, all []errand, budget *int) {
	var names []string
	for _, e := range all {
		if !e.whole {
			names = append(names, e.name)
		}
	}
	at, compared := 0, 0
	_ = scan(s.ctx, d, names, scoutNames, func(name string, entries []Entry, ok bool) {
		for at < len(all) && all[at].name != name {
			at++
		}
		if at == len(all) || !ok {
			return
		}
		e := all[at]
		below := Join(path, name)
		e.sights = make([]sight, len(entries))
		for i, entry := range entries {
			if compared > scoutSide*scoutNames*unit || s.ctx.Err() != nil {
				*budget = 0
				return
			}
			e.sights[i] = f.look(entry, below, e.next)
			compared += e.sights[i].compared
			e.into = e.into || e.sights[i].into
		}
		e.whole = true
		s.held.Add(int64(len(entries)))
	})
	*budget -= len(names)
	for _, e := range all {
		if !e.whole || !e.into || *budget <= 0 || s.held.Load() > scoutHeld || s.ctx.Err() != nil {
			continue
		}
		n, err := d.Lookup(s.ctx, e.name)
		if err != nil {
			continue
		}
		if sub, ok := n.(Dir); ok {
			s.below(f, sub, Join(path, e.name), e.sights, budget)
		}
		n.Close()
	}
}

// below explores directories among the sights of d.
func (s *scouts) below(f *finder, d Dir, path string, sights []sight, budget *int) {
	var all []errand
	for i := range sights {
		if a := &sights[i]; a.into && a.below == nil && len(all) < *budget {
			a.below = &survey{done: here}
			all = append(all, errand{a.Name, a.next, a.below})
		}
	}
	s.explore(f, d, path, all, budget)
}

// drop lets go of what was looked at.
func (s *scouts) drop(v *survey) { s.held.Add(-int64(len(v.sights))) }

// end waits until every scout is back.
func (s *scouts) end() {
	if s.stop != nil {
		s.stop()
		s.out.Wait()
	}
}

// place is a directory of the search, which is opened when it has to be.
type place struct {
	dir   Dir // nil as long as it is not
	in    *place
	name  string
	known *survey // nil, or what a scout finds out
}

// open returns the directory: nil for what is none. It stays the place's.
func (p *place) open(ctx context.Context) (Dir, error) {
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
	if d, ok := n.(Dir); ok {
		p.dir = d
		return d, nil
	}
	return nil, n.Close()
}

// gone reports whether what p was opened as is no longer there by its name.
func (p *place) gone(ctx context.Context) bool {
	if p.in == nil {
		return false
	}
	in, err := p.in.open(ctx)
	if err != nil || in == nil {
		return false
	}
	n, err := in.Lookup(ctx, p.name)
	if err != nil {
		return CodeOf(err) == NotFound || CodeOf(err) == Stale && p.in.gone(ctx)
	}
	n.Close()
	return KindOf(n) != DirKind
}

// close closes what open opened.
func (p *place) close() {
	if p.dir != nil && p.in != nil {
		p.dir.Close()
	}
}

// list is what it lists from a name on.
func (p *place) list(ctx context.Context, from string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		d, err := p.open(ctx)
		if err != nil {
			yield(Entry{}, err)
		} else if d != nil {
			ListFrom(ctx, d, from)(yield)
		}
	}
}

// readable answers, each time, whether what it lists may still be told.
func (p *place) readable() func() error {
	path := ""
	for p.dir == nil {
		path = Join(p.name, path)
		p = p.in
	}
	v, guarded := p.dir.(*dirView)
	if !guarded {
		return func() error { return nil }
	}
	path = Join(v.path, strings.TrimSuffix(path, "/"))
	b := v.bindAt(path)
	return func() error {
		if b.gate.word.Load() != b.word {
			b = v.bindAt(path)
		}
		return (b.mode() | v.mask).refuse(noRead)
	}
}
