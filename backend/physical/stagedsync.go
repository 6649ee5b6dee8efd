package physical

import (
	"context"
	"errors"
	"os"

	"capd/hostfile"
	"capd/meter"
	"capd/vfs"
)

// syncsLater reports whether what is changed in p need not be on disk before the staged
// directory that p lies in is placed.
func (s *Store) syncsLater(p place) bool { return s.syncsWhole && stagedDepth(p.path) > 0 }

// fewSynced is up to how many nodes are synced one by one. Syncing the file system waits for
// whatever other programs have written as well, but one sync serves any number of nodes.
const fewSynced = 16

// errFew says that not everything can be synced one by one.
var errFew = errors.New("sync the file system")

// flush writes everything in s to disk.
func (s *stagedDir) flush(ctx context.Context) error {
	if s.fs == nil {
		return nil // it is on disk
	}
	top, err := s.s.enter(s.at)
	if err != nil {
		return s.st.lost(err)
	}
	defer s.s.leave(top)
	few := fewSynced
	late := meter.Rest(ctx, func() {
		if err = syncEach(top, &few); errors.Is(err, errFew) || errors.Is(err, os.ErrPermission) {
			err = syncWhole(s.fs)
		}
	})
	if err != nil {
		return explain(err)
	}
	return late
}

// syncEach syncs everything in d, and d itself. After few nodes it returns errFew.
func syncEach(d directory, few *int) error {
	err := d.entries(func(some []vfs.Entry) error {
		if *few -= len(some); *few < 0 {
			return errFew
		}
		for _, e := range some {
			if err := syncEntry(d, e, few); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	self, err := d.self()
	if err != nil {
		return err
	}
	defer self.Close()
	return hostfile.SyncNames(self)
}

func syncEntry(d directory, e vfs.Entry, few *int) error {
	switch e.Kind {
	case vfs.FileKind:
		f, _, err := d.open(e.Name, openToSync)
		if err != nil {
			return err
		}
		defer f.Close()
		return f.Sync()
	case vfs.DirKind:
		sub, _, err := d.sub(e.Name)
		if err != nil {
			return err
		}
		defer sub.release()
		return syncEach(sub, few)
	case vfs.Other:
		return errFew
	}
	return nil // a link lies in the directory's names
}
