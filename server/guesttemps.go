package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"capd/backend/physical"
	"capd/hostfile"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// temps keeps the temporary directories of guests, each in a directory of its own below one of the state directory.
type temps struct {
	s     *Server
	top   *os.Root
	store *physical.Store
	batch vfs.Dir // the journal of changes of many paths; see [membrane.Guard]
	next  atomic.Int64

	mu       sync.Mutex
	over     bool // close removes what is there, and nobody else begins to
	removals sync.WaitGroup
}

// journalDir lies beside the temporary directories, whose names are numbers.
const journalDir = "journal"

// openTemps makes the place for temporary directories. Those of a host that died are out of sight when it returns, and removed
// after that.
func (s *Server) openTemps(ctx context.Context) (err error) {
	dir, away := s.state.Temps(), filepath.Join(s.state.Roots(), goneDir)
	if err := state.MakeDir(away); err != nil {
		return s.state.Unusable(err)
	}
	err = os.Rename(dir, filepath.Join(away, fmt.Sprintf("%d-%d", time.Now().UnixNano(), s.away.Add(1))))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.state.Unusable(err)
	}
	if err := state.MakeDir(dir); err != nil {
		return s.state.Unusable(err)
	}
	s.temps.s = s
	if s.temps.top, err = os.OpenRoot(dir); err != nil {
		return s.state.Unusable(err)
	}
	if s.temps.store, err = physical.OpenAmbient(dir, physical.Options{NoSync: true}); err != nil {
		return s.state.Unusable(err)
	}
	root := s.temps.store.Root()
	defer root.Close()
	s.temps.batch, err = root.Mkdir(ctx, journalDir)
	return err
}

func (t *temps) maker() *membrane.Temps {
	return &membrane.Temps{New: t.make, Carry: namespace.CarryTemp, Journal: t.batch, Bulkhead: membrane.NewBulkhead(0)}
}

// make makes one.
func (t *temps) make(ctx context.Context) (vfs.Dir, func(), error) {
	name := strconv.FormatInt(t.next.Add(1), 10)
	if err := t.top.Mkdir(name, 0o700); err != nil {
		return nil, nil, &vfs.Error{Code: vfs.Internal, Msg: "a temporary directory cannot be made", Cause: err}
	}
	remove := func() {
		if !t.begin() {
			return
		}
		defer t.removals.Done()
		if err := hostfile.Erase(t.top, name); err != nil {
			t.s.logf("capd: removing a temporary directory of a guest: %v", err)
		}
	}
	root := t.store.Root()
	defer root.Close()
	n, err := root.Lookup(ctx, name)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return n.(vfs.Dir), remove, nil
}

// begin begins a removal, and reports false when close does that.
func (t *temps) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.removals.Add(1)
	}
	return !t.over
}

// close removes what is there. It does not wait for ever: the next host goes on.
func (t *temps) close() error {
	if t.top == nil {
		return nil
	}
	var err error
	if t.batch != nil {
		err = t.batch.Close()
	}
	if t.store != nil {
		err = errors.Join(err, t.store.Close())
	}
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		t.removals.Wait()
		done <- errors.Join(t.empty(), t.top.Close())
	}()
	select {
	case late := <-done:
		err = errors.Join(err, late)
	case <-time.After(membrane.Grace):
	}
	return err
}

func (t *temps) empty() error {
	entries, err := fs.ReadDir(t.top.FS(), ".")
	for _, e := range entries {
		err = errors.Join(err, hostfile.Erase(t.top, e.Name()))
	}
	return err
}
