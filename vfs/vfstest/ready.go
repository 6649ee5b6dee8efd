package vfstest

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

var readyRules = []rule{
	{"Host/Ready", local, testReady},
	{"Host/ReadyRefused", local, testReadyRefused},
	{"Host/ReadyWaits", local, testReadyWaits},
}

// changeFunc is a vfs.Change that needs no approval.
type changeFunc func(context.Context, vfs.Staged) (finish func() error, err error)

func (changeFunc) Asks(string) error { return nil }

func (changeFunc) Stands() bool { return false }

func (c changeFunc) Ready(ctx context.Context, s vfs.Staged) (func() error, error) { return c(ctx, s) }

// answering returns w with a Change that answers by c.
func (w *world) answering(c changeFunc) *world {
	call := vfs.CallOf(w.ctx)
	call.OnChange(c)
	return w.with(vfs.WithCall(w.ctx, call))
}

// testReady checks that each change is ready once, before its commit and before anybody
// sees it, and that what is staged then is what is put in place.
func testReady(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		before, root := w.picture(), w.root
		was := w.changed(c.name)
		asked, finished, committed := 0, false, false
		var content vfs.Version
		w2 := w.committing(func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
			got, err := change()
			committed = finished
			if !finished { // a store may look whether Commit would let it
				w.unchanged(c.name+", before it is ready", before)
			}
			return got, err
		}).answering(func(_ context.Context, s vfs.Staged) (func() error, error) {
			asked++
			if s.Late {
				w.Errorf("%s: the store does not call Ready", c.name)
			}
			if now, err := look(w.ctx, root); err != nil || differ(before, now) != "" {
				w.Errorf("%s is seen before it is ready: %v %s", c.name, err, differ(before, now))
			}
			if was != (vfs.Info{}) && s.Was != was {
				w.Errorf("%s: the store tells that the file was %+v, and it is %+v", c.name, s.Was, was)
			}
			content = w.staged(c.name, s.Content)
			return func() error { finished = true; return nil }, nil
		})
		w.ok(c.name, c.do(w2, f, d))
		if asked != 1 || !committed {
			w.Errorf("%s was ready %d times, and committed after that: %v", c.name, asked, committed)
		}
		if whole := strings.HasPrefix(c.name, "Replace") || strings.HasPrefix(c.name, "Install"); whole && !w.holds(content) {
			w.Errorf("%s: no file has what was staged, %v", c.name, content)
		} else if !whole && !content.IsZero() {
			w.Errorf("%s: a whole file is staged", c.name)
		}
	})
}

// changed returns the Info of the file that a change replaces, writes to or removes; the zero Info if there is none.
func (w *world) changed(name string) vfs.Info {
	w.Helper()
	file := "f"
	switch first, _, _ := strings.Cut(name, " "); {
	case strings.HasSuffix(name, " of nothing"), strings.Contains(name, " of nothing,"), name == "Remove of a directory", name == "Remove of a link":
		return vfs.Info{}
	case name == "Replace by nothing":
		file = "x"
	case !slices.Contains([]string{"Replace", "WriteAt", "Truncate", "Append", "Remove"}, first):
		return vfs.Info{}
	}
	info, err := w.file(file).Stat(w.ctx)
	w.ok("stat of "+file, err)
	return info
}

// holds reports whether a file that a change may put has the version v.
func (w *world) holds(v vfs.Version) bool {
	for _, name := range []string{"f", "x", "new"} {
		if f, err := vfs.LookupAs[vfs.File](w.ctx, w.root, name, vfs.NotRegular); err == nil {
			defer f.Close()
			if has, err := vfs.VersionOf(w.ctx, f); err == nil && has == v {
				return true
			}
		}
	}
	return false
}

// staged reads what is staged, and returns its version; the zero Version if there is
// nothing.
func (w *world) staged(what string, s vfs.StagedContent) vfs.Version {
	w.Helper()
	if s == nil {
		return vfs.Version{}
	}
	c, err := s.Open(w.ctx)
	if err != nil {
		w.Errorf("%s: opening what is staged: %v", what, err)
		return vfs.Version{}
	}
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil || int64(len(b)) != s.Size() || sum(string(b)) != s.Version() {
		w.Errorf("%s: what is staged has %d bytes, says %d, %v, and its version is another: %v",
			what, len(b), s.Size(), err, sum(string(b)) != s.Version())
	}
	return s.Version()
}

// testReadyRefused refuses each change when it is ready, and when that was to be on disk.
func testReadyRefused(w *world) {
	refused := vfs.Errorf(vfs.AskDenied, "refused")
	for _, how := range []changeFunc{
		func(context.Context, vfs.Staged) (func() error, error) { return nil, refused },
		func(context.Context, vfs.Staged) (func() error, error) { return func() error { return refused }, nil },
	} {
		w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
			before := w.picture()
			var l ledger
			for range 2 {
				w.is(c.name+", refused", c.do(w.committing(l.commit).answering(how), f, d), vfs.AskDenied)
			}
			if l.total != (vfs.Effect{}) {
				w.Errorf("%s, refused, was committed with %+v", c.name, l.total)
			}
			w.unchanged(c.name+", refused", before)
			w.ok(c.name+", after it was refused", c.do(w, f, d))
		})
	}
}

// testReadyWaits changes something else in the same directories while a change waits to
// be ready. So a store that holds a lock is found.
func testReadyWaits(w *world) {
	w.eachChange(func(w *world, c change, f vfs.File, d vfs.Dir) {
		root := w.root
		waits := w.answering(func(context.Context, vfs.Staged) (func() error, error) {
			done := make(chan error, 1)
			go func() { done <- besides(w.ctx, root, d) }()
			select {
			case err := <-done:
				if err != nil {
					w.Errorf("a change beside %s: %v", c.name, err)
				}
			case <-time.After(10 * time.Second):
				w.Errorf("while %s waits to be ready, nothing else can change", c.name)
			}
			return nil, nil
		})
		w.ok(c.name, c.do(waits, f, d))
	})
}

// besides changes names in both directories that no change uses.
func besides(ctx context.Context, dirs ...vfs.Dir) error {
	for _, d := range dirs {
		made, err := d.Mkdir(ctx, "beside")
		if err != nil {
			return err
		}
		made.Close()
		if err := d.Remove(ctx, "beside", vfs.If{}); err != nil {
			return err
		}
	}
	return nil
}
