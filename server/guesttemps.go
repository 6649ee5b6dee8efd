package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"capd/backend/memory"
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
	next  atomic.Int64
}

// openTemps makes the place for temporary directories. Those of a host that died are out of sight when it returns, and removed
// after that.
func (s *Server) openTemps() (err error) {
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
	if s.temps.store, err = physical.OpenAmbient(dir, physical.Options{}); err != nil {
		return s.state.Unusable(err)
	}
	return nil
}

func (t *temps) maker() *membrane.Temps {
	return &membrane.Temps{New: t.make, Carry: namespace.Carry, Journal: memory.New(memory.Limits{}).Root(), Bulkhead: membrane.NewBulkhead(0)}
}

// make makes one.
func (t *temps) make(ctx context.Context) (vfs.Dir, func(), error) {
	name := strconv.FormatInt(t.next.Add(1), 10)
	if err := t.top.Mkdir(name, 0o700); err != nil {
		return nil, nil, &vfs.Error{Code: vfs.Internal, Msg: "a temporary directory cannot be made", Cause: err}
	}
	remove := func() {
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

// close removes what is there.
func (t *temps) close() error {
	if t.top == nil {
		return nil
	}
	var err error
	if t.store != nil {
		err = t.store.Close()
	}
	entries, late := fs.ReadDir(t.top.FS(), ".")
	err = errors.Join(err, late)
	for _, e := range entries {
		if gone := hostfile.Erase(t.top, e.Name()); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return errors.Join(err, t.top.Close())
}
