package authority

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"capd/database"
	"capd/record"
	"capd/vfs/membrane"
)

// readsEach is how often it is recorded what was read.
const readsEach = time.Minute

// maxReadDirs is how many directories an entry has.
const maxReadDirs = 256

// reads counts what guests read, and writes that to the record from time to time.
type reads struct {
	membrane.Reads
	mu     sync.Mutex
	timer  *time.Timer // nil while nothing is counted
	closed bool
}

// beginReads makes h count what is read. Reads in secret roots are recorded one by one.
func (h *Host) beginReads() {
	h.reads.Each = func(dir string) bool { return h.roots.Load().InSecret(dir) }
	h.reads.One, h.reads.Began = h.noteRead, h.readsBegan
}

// noteRead records one read. It returns false if the record cannot take it now; then it is counted.
func (h *Host) noteRead(r membrane.OneRead) bool {
	at := time.Now()
	return h.db.Spare(func(tx *database.Tx) (err error) {
		e := record.Entry{At: at.UnixMilli(), Kind: record.Read, Op: r.Op.String(), Path: record.Path(r.Path)}
		if e.Grants, err = holders(tx, r.ID); err != nil {
			return err
		}
		return h.record.Append(tx, e)
	})
}

// readsBegan sets when what was read is written.
func (h *Host) readsBegan() {
	s := &h.reads
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.timer == nil {
		s.timer = time.AfterFunc(readsEach, h.writeReads)
	}
}

// writeReads writes what was read since the last time. Nobody waits for it.
func (h *Host) writeReads() {
	s := &h.reads
	s.mu.Lock()
	defer s.mu.Unlock()
	all, more := s.Take()
	if s.timer != nil && more && !s.closed {
		s.timer.Reset(readsEach)
	} else {
		s.timer = nil
	}
	if len(all) == 0 {
		return
	}
	h.db.Later(func(tx *database.Tx) error { return h.noteReads(tx, all) })
}

// noteReads adds what was counted to the record: an entry for each grant or share, and more than one if it is long.
func (h *Host) noteReads(tx *database.Tx, all []membrane.ReadCount) error {
	slices.SortFunc(all, func(a, b membrane.ReadCount) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Dir, b.Dir))
	})
	var dirs []record.Dir
	for i, c := range all {
		if last := len(dirs) - 1; last < 0 || string(dirs[last].Path) != c.Dir || dirs[last].Rest != c.Rest {
			dirs = append(dirs, record.Dir{Path: record.Path(c.Dir), Rest: c.Rest})
		}
		d := &dirs[len(dirs)-1]
		if c.List {
			d.Lists += c.N
		} else {
			d.Reads += c.N
		}
		if ends := i == len(all)-1 || all[i+1].ID != c.ID; !ends && len(dirs) < maxReadDirs {
			continue
		}
		grants, err := holders(tx, c.ID)
		if err == nil {
			err = h.record.Append(tx, record.Entry{Kind: record.Counted, Grants: grants, Dirs: dirs})
		}
		if err != nil {
			return err
		}
		dirs = nil
	}
	return nil
}

// closeReads writes what was read, at the end of a host.
func (h *Host) closeReads() {
	h.reads.mu.Lock()
	h.reads.closed = true
	if h.reads.timer != nil {
		h.reads.timer.Stop()
	}
	h.reads.mu.Unlock()
	h.writeReads()
}
