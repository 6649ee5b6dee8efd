package worlds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/membrane"
)

// synced is how many files have changed when a tree is brought back.
const synced = 10

// A workshop is a directory and copies of it.
type workshop struct {
	dir, source string
	names       []string
	all         tally // of the source as it was made

	store   *physical.Store // of the source
	root    vfs.Dir
	base    *materialize.Base
	copies  int
	journal *physical.Store
	tree    *materialize.Tree // of another copy of the source, which changes
	changes int
	changed map[string][]byte // by path
	target  *physical.Store   // the store of that other copy
	into    vfs.Dir
}

// copying measures taking a tree out of a store into a private directory, and syncing changes back.
func copying(_ Options, s *sizes, dir string) world {
	w := &workshop{dir: dir, source: filepath.Join(dir, "source")}
	cp := findCp()
	copied := func(to string, remove func() error) func() error {
		return func() error {
			got, err := tallyDir(to)
			if err == nil {
				err = got.is("the copy", w.all)
			}
			return errors.Join(err, remove())
		}
	}
	byCp := &contender{name: "cp -a", missing: cp.missing, run: func(ctx context.Context) (func() error, error) {
		w.copies++
		to := filepath.Join(dir, "copy"+strconv.Itoa(w.copies))
		_, err := cp.run(ctx, "", "-a", w.source, to)
		return copied(to, func() error { return os.RemoveAll(to) }), err
	}}
	materializes := &contender{name: "materialize", run: func(ctx context.Context) (func() error, error) {
		t, err := w.base.New(ctx, w.root, materialize.Options{})
		if err != nil {
			return nil, err
		}
		return copied(t.Path(), t.Close), nil
	}}
	byHand := &contender{name: fmt.Sprintf("lstat of all, %d durable writes", synced), before: w.change, run: func(context.Context) (func() error, error) {
		seen, err := w.look()
		for name, content := range w.changed {
			if err == nil {
				err = place(filepath.Join(dir, "placed", filepath.Base(name)), content)
			}
		}
		return func() error {
			if seen != len(w.names) {
				return differ("files seen", seen, len(w.names))
			}
			return nil
		}, err
	}}
	syncs := &contender{name: "sync", before: w.change, run: func(ctx context.Context) (func() error, error) {
		r, err := w.tree.Sync(ctx, w.journal.Root(), materialize.SyncOptions{})
		return func() error { return w.brought(r) }, err
	}}
	n := s.copied()
	return world{
		rows: []row{
			{name: fmt.Sprintf("materialize %s files", count(n)), floor: byCp, capd: materializes, target: 2},
			{name: fmt.Sprintf("sync %d changed files of %s", synced, count(n)), floor: byHand, capd: syncs, within: 100 * time.Millisecond},
		},
		long:  true,
		setup: func(ctx context.Context) error { return w.open(ctx, n) },
		close: w.close,
	}
}

// open makes two sets of n files of 1 byte to 16 KiB, and materializes the second.
func (w *workshop) open(ctx context.Context, n int) (err error) {
	second := filepath.Join(w.dir, "second")
	for _, dir := range []string{w.source, second} {
		w.names = nil
		contents, random := randomContents(), rand.New(rand.NewPCG(1, 2))
		err := sow(dir, n, func(name string) []byte {
			w.names = append(w.names, name)
			return contents(1 + random.IntN(16<<10))
		})
		if err != nil {
			return err
		}
	}
	if w.all, err = tallyDir(w.source); err != nil {
		return err
	}
	for _, name := range []string{"journal", "placed"} {
		if err := os.Mkdir(filepath.Join(w.dir, name), 0o700); err != nil {
			return err
		}
	}
	if w.store, err = physical.OpenAmbient(w.source, physical.Options{}); err != nil {
		return err
	}
	if w.target, err = physical.OpenAmbient(second, physical.Options{}); err != nil {
		return err
	}
	if w.journal, err = physical.OpenAmbient(filepath.Join(w.dir, "journal"), physical.Options{}); err != nil {
		return err
	}
	if w.base, err = materialize.OpenAmbient(filepath.Join(w.dir, "base")); err != nil {
		return err
	}
	w.root, w.into = membrane.Guarded(w.store.Root(), nil), membrane.Guarded(w.target.Root(), nil)
	w.tree, err = w.base.New(ctx, w.into, materialize.Options{})
	return err
}

func (w *workshop) close() (err error) {
	if w.tree != nil {
		err = w.tree.Close()
	}
	if w.base != nil {
		err = errors.Join(err, w.base.Close())
	}
	for _, s := range []*physical.Store{w.journal, w.target, w.store} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// change makes the changes of a program in the materialized tree.
func (w *workshop) change() error {
	w.changes++
	w.changed = map[string][]byte{}
	for i := range synced {
		name := w.names[i*len(w.names)/synced]
		w.changed[name] = fmt.Appendf(nil, "change %d of %s\n", w.changes, name)
		if err := os.WriteFile(filepath.Join(w.tree.Path(), name), w.changed[name], 0o600); err != nil {
			return err
		}
	}
	return nil
}

// look is the cheapest way to find what has changed.
func (w *workshop) look() (seen int, err error) {
	err = filepath.WalkDir(w.tree.Path(), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		seen++
		_, err = e.Info()
		return err
	})
	return seen, err
}

// brought checks that a sync did, and reported, what was changed.
func (w *workshop) brought(r materialize.Report) error {
	if len(r.Changes) != len(w.changed) || len(r.Skipped) > 0 {
		return differ("changes brought back", len(r.Changes), len(w.changed))
	}
	for name, want := range w.changed {
		got, err := os.ReadFile(filepath.Join(w.dir, "second", name))
		if err != nil {
			return err
		}
		if string(got) != string(want) {
			return differ(name, string(got), string(want))
		}
	}
	return nil
}

// place replaces a host file durably.
func place(name string, content []byte) error {
	f, err := os.Create(name + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close(), os.Rename(name+".new", name)); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// randomContents returns a function that makes incompressible contents, the same in each run. A content is
// valid until the next call.
func randomContents() func(size int) []byte {
	random := rand.NewChaCha8([32]byte{})
	var buf []byte
	return func(size int) []byte {
		if cap(buf) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		_, _ = random.Read(buf) // never fails
		return buf
	}
}
