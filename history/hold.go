package history

import "capd/database"

// Hold keeps entries of the root grant top, which are about to be undone, until release is called: the undo needs them, and its own changes
// may fill the bounds. When it returns, what is in the history stays there.
func (j *Journal) Hold(top int64, entries []int64) (release func(), err error) {
	release = j.hold(top, entries, holds{targets: 1})
	if err := j.Flush(); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// HoldOwn keeps what an undo under way has done as the entry, so that it can be taken back. That is not kept beyond twice the bytes of the bounds.
func (j *Journal) HoldOwn(top, entry int64) (release func()) {
	return j.hold(top, []int64{entry}, holds{own: 1})
}

func (j *Journal) hold(top int64, entries []int64, one holds) (release func()) {
	add := func(sign int) {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, e := range entries {
			n := j.undoing[e]
			n.targets, n.own = n.targets+sign*one.targets, n.own+sign*one.own
			if j.undoing[e] = n; n == (holds{}) {
				delete(j.undoing, e)
			}
		}
	}
	add(1)
	return func() {
		add(-1)
		j.db.Later(func(tx *database.Tx) error {
			delete(j.held, top)
			return j.bound(tx, top)
		})
	}
}

// beingUndone returns the entries that are held, and whether as what is undone.
func (j *Journal) beingUndone() map[int64]bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[int64]bool, len(j.undoing))
	for e, n := range j.undoing {
		all[e] = n.targets > 0
	}
	return all
}

// Reserve takes room for bytes that are about to be copied to the shelf for the root grant top, and counted only later. What is copied at once is
// as bounded as what is kept. After true the caller calls Free.
func (j *Journal) Reserve(top, bytes int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := bytes
	for _, n := range j.copying {
		all += n
	}
	if j.copying[top]+bytes > j.bounds.Bytes || all > j.bounds.All {
		return false
	}
	j.copying[top] += bytes
	return true
}

// Free gives back what Reserve took.
func (j *Journal) Free(top, bytes int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.copying[top] -= bytes; j.copying[top] == 0 {
		delete(j.copying, top)
	}
}

// Crowded tells the operator, once for each root grant, that something was not kept because there was no room.
func (j *Journal) Crowded(top int64) {
	j.mu.Lock()
	first := !j.crowded[top]
	j.crowded[top] = true
	j.mu.Unlock()
	if first {
		j.logf("capd: g%d changes more at once than its history keeps: not all of it can be undone", top)
	}
}
