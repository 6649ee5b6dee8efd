package main

import (
	"errors"
	"fmt"

	"capd/backend/physical"
	"capd/materialize"
	"capd/state"
	"capd/virtualfs"
)

// world is a namespace with what it needs of the host: where it writes what it is
// about to do, where it keeps contents, and where it materializes.
type world struct {
	*virtualfs.FS
	journal  *journal
	contents contents
	base     *materialize.Base
}

// openWorld opens an empty one, and settles first what a process that died had begun:
// in stores that last, and in what other opens, by the name that was written down. The
// state directory is there.
func openWorld(e *env, st state.Dir, other opener) (w *world, err error) {
	w = &world{contents: contents{st.Contents()}}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	s := stores{st, w.contents}
	if w.journal, err = newJournal(e, st, s.openers(), other, e.logf); err != nil {
		return w, err
	}
	if w.base, err = materialize.OpenAmbient(st.Materialized()); err != nil {
		return w, st.Unusable(err)
	}
	w.FS = virtualfs.New(virtualfs.Options{
		Open: s.openers(), Upper: s.upper, Journal: w.journal,
		Snapshot: w.contents.snapshot, Materialize: w.materialize, Logf: e.logf,
	})
	return w, nil
}

// Close closes what is there of it.
func (w *world) Close() error {
	var errs []error
	if w.FS != nil {
		errs = append(errs, w.FS.Close())
	}
	if w.base != nil {
		errs = append(errs, w.base.Close())
	}
	if w.journal != nil {
		errs = append(errs, w.journal.Close())
	}
	return errors.Join(errs...)
}

// logf tells the host something.
func (e *env) logf(format string, args ...any) { fmt.Fprintf(e.stderr, format+"\n", args...) }

// possible answers what is wrong with a plan before anything is made for it.
func (p *plan) possible(st state.Dir) error {
	for _, m := range p.mounts {
		u := m.url
		if u.Below != nil {
			u = u.Below
		}
		if u.Scheme != "physical" {
			continue
		}
		store, err := openPhysical(u.Path, physical.Options{ReadOnly: true})
		if err != nil {
			return m.said(err)
		}
		err = stores{st: st}.outside(store)
		store.Close()
		if err != nil {
			return m.said(err)
		}
	}
	return nil
}
