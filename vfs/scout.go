package vfs

import (
	"context"
	"iter"
	"runtime"
	"strings"
	"sync"
)

// scouts list directories before the search comes to them, several at once. What
// they bring is looked at in the search's own order.
type scouts struct {
	ctx  context.Context
	stop context.CancelFunc
	free chan struct{} // made when the first goes
	out  sync.WaitGroup
}

// How far scouts go: so many directories on one way, and so many names of each. A
// directory with more is left to the search.
const (
	scoutDirs  = 8
	scoutNames = 1024
)

// scouted is what a scout finds out.
type scouted struct {
	entries map[string][]Entry // of the directories that it could list
	done    chan struct{}      // closed when it is there
}

// of waits for what was found out about name.
func (f *scouted) of(name string) (entries []Entry, known bool) {
	if f == nil {
		return nil, false
	}
	<-f.done
	entries, known = f.entries[name]
	return entries, known
}

// send lets scouts go to the directories among what lies ahead in d, as long as there
// are free ones: the first goes where the search itself is about to.
func (s *scouts) send(ctx context.Context, d Dir, ahead []sight) {
	if _, ok := d.(Scanner); !ok {
		return
	}
	if s.free == nil {
		s.free = make(chan struct{}, min(4, 2*runtime.GOMAXPROCS(0)))
		s.ctx, s.stop = context.WithCancel(ctx)
	}
	for len(ahead) > 0 {
		names, n := make([]string, 0, scoutDirs), 0
		for n < len(ahead) && len(names) < scoutDirs {
			if ahead[n].into && !ahead[n].sent {
				names = append(names, ahead[n].Name)
			}
			n++
		}
		if len(names) == 0 {
			return
		}
		select {
		case s.free <- struct{}{}:
		default:
			return // all are out: the search goes on, and sends them again
		}
		found := &scouted{entries: map[string][]Entry{}, done: make(chan struct{})}
		for i := range ahead[:n] {
			if ahead[i].into && !ahead[i].sent {
				ahead[i].scouted, ahead[i].sent = found, true
			}
		}
		ahead = ahead[n:]
		s.out.Go(func() {
			defer func() { <-s.free }()
			defer close(found.done)
			_ = scan(s.ctx, d, names, scoutNames, func(name string, entries []Entry, ok bool) {
				if ok {
					found.entries[name] = entries
				}
			})
		})
	}
}

// end waits until every scout is back.
func (s *scouts) end() {
	if s.stop != nil {
		s.stop()
		s.out.Wait()
	}
}

// place is a directory of the search, which is opened when it has to be.
type place struct {
	dir     Dir // nil as long as it is not
	in      *place
	name    string
	entries []Entry // what it lists, if that is known
	known   bool
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

// close closes what open opened.
func (p *place) close() {
	if p.dir != nil && p.in != nil {
		p.dir.Close()
	}
}

// list is what it lists.
func (p *place) list(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if p.known {
			for _, e := range p.entries {
				if !yield(e, nil) {
					return
				}
			}
			return
		}
		d, err := p.open(ctx)
		if err != nil {
			yield(Entry{}, err)
		} else if d != nil {
			d.List(ctx)(yield)
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
