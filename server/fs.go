package server

import (
	"context"
	"errors"
	"log"

	"capd/materialize"
	"capd/operator"
	"capd/state"
	"capd/vfs"
	"capd/virtualfs"
)

// FS is a namespace of stores that this process opens with its own authority. It has a journal for
// what it is about to do, a store of contents, and a place for materialized trees. It serves no
// guests.
type FS struct {
	*virtualfs.FS
	journal  *journal
	contents contents
	base     *materialize.Base
}

// FSOptions configures an FS. The zero value suits most programs.
type FSOptions struct {
	Stores map[string]Opener // as Server.Stores
	// Recover opens a tree that was being changed when a process died, by the name that was given
	// for it, if that is not a tree of mounts. It answers ErrOthers for a name that it does not
	// know. It may be nil.
	Recover func(ctx context.Context, name string) (vfs.Dir, error)
	// Record is that of [virtualfs.Options]. It may be nil.
	Record func(operator.Act) (id string, end func(error), err error)
	Logf   func(format string, args ...any) // nil is the log package

	private func() []private // no mount shows them; nil: the state directory
}

// OpenFS opens an FS without mounts. First it finishes or undoes what a process that died has left
// unfinished in the same state directory.
func OpenFS(ctx context.Context, st state.Dir, o FSOptions) (f *FS, err error) {
	if o.Logf == nil {
		o.Logf = log.Printf
	}
	if err := st.Make(); err != nil {
		return nil, err
	}
	f = &FS{contents: contents{st.Contents()}}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if o.private == nil {
		o.private = func() []private { return []private{stateDir(st)} }
	}
	s := stores{st, o.private, f.contents, &directories{}}
	open := s.openers()
	for scheme, opener := range o.Stores {
		open[scheme] = own{scheme, opener, o.Logf}.open
	}
	if f.journal, err = newJournal(ctx, st, open, o.Recover, o.Logf); err != nil {
		return f, err
	}
	if f.base, err = materialize.OpenAmbient(st.Materialized()); err != nil {
		return f, st.Unusable(err)
	}
	f.FS = virtualfs.New(virtualfs.Options{
		Open: open, Upper: s.upper, Journal: f.journal,
		Snapshot: f.contents.snapshot, Materialize: f.materialize, Record: o.Record, Recovered: f.journal.recovered, Logf: o.Logf,
	})
	return f, nil
}

// Close closes f, even one that was opened only in part.
func (f *FS) Close() error {
	var errs []error
	if f.FS != nil {
		errs = append(errs, f.FS.Close())
	}
	if f.base != nil {
		errs = append(errs, f.base.Close())
	}
	if f.journal != nil {
		errs = append(errs, f.journal.Close())
	}
	return errors.Join(errs...)
}
