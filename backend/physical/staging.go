package physical

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"capd/hostfile"
	"capd/vfs"
)

// Content is staged in a directory on the same mount as its target. The directory is
// made when the first change needs it. It has a random name that [hidden] keeps from
// every Dir, mode 0700, and a lock file that is locked while its owner lives. Usually
// there is one, in the served root. A directory on another device, or a tree whose root
// this process may not write, gets its own for the time of one change.
type staging struct {
	s    *Store
	mu   sync.Mutex
	root *stage
	over bool // the store is closed
}

// stage is a staging directory that this process owns.
type stage struct {
	s    *Store
	in   place // the directory it lies in
	name string
	at   place
	lock *os.File
	next atomic.Uint64
}

const lockName = "lock"

// refused reports errors after which another directory may work.
func refused(err error) bool {
	switch vfs.CodeOf(err) {
	case vfs.Denied, vfs.ReadOnly, vfs.Limit:
		return true
	}
	return false
}

// near returns the stage for changes in p, and a function that releases it.
func (g *staging) near(p place) (*stage, func(), error) {
	st, dev, err := g.shared()
	switch {
	case err == nil && (p.path == "" || p.id.dev == dev):
		return st, func() {}, nil
	case err != nil && (p.path == "" || !refused(err)):
		return nil, nil, err
	}
	if st, err = g.s.newStage(p); err != nil {
		return nil, nil, err
	}
	return st, st.remove, nil
}

// shared returns the stage in the root and the root's device.
func (g *staging) shared() (*stage, uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return nil, 0, vfs.At("", vfs.Stale)
	}
	d, err := g.s.enter(place{})
	if err != nil {
		return nil, 0, err
	}
	defer g.s.leave(d)
	a, err := d.attr()
	if err != nil {
		return nil, 0, explain(err)
	}
	if g.root != nil {
		if there, err := g.s.enter(g.root.at); err == nil {
			g.s.leave(there)
			return g.root, a.dev, nil
		}
		g.root.lock.Close() // somebody removed it
		g.root = nil
	}
	st, err := g.s.newStage(place{})
	if err != nil {
		return nil, 0, err
	}
	g.root = st
	return st, a.dev, nil
}

// close removes the stage in the root.
func (g *staging) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.root != nil {
		g.root.remove()
		g.root = nil
	}
}

// newStage makes a staging directory in p and locks it. If another process removes it
// before it is locked, newStage makes another.
func (s *Store) newStage(p place) (*stage, error) {
	for range again {
		st := &stage{s: s, in: p, name: stagingPrefix + randomDigits()}
		ok, err := st.make()
		if err != nil {
			return nil, err
		}
		if ok {
			return st, nil
		}
	}
	return nil, errKeepsChanging
}

func randomDigits() string {
	var b [stagingDigits / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// make reports false when another name must be tried.
func (st *stage) make() (bool, error) {
	d, err := st.s.enter(st.in)
	if err != nil {
		return false, err
	}
	defer st.s.leave(d)
	if err := d.mkdir(st.name, 0o700); err != nil {
		if isExist(err) {
			return false, nil
		}
		return false, gone(err)
	}
	sub, id, err := d.sub(st.name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	defer sub.release()
	lock, err := sub.create(lockName, 0o600)
	if err != nil {
		d.rmdir(st.name) // fails when another process uses it
		return false, ignoreMissing(err)
	}
	if !holdsLock(sub, lock) {
		lock.Close()
		return false, nil
	}
	st.lock = lock
	if ignore, err := sub.create(".gitignore", 0o600); err == nil { // so that git does not look at the tree
		_, _ = ignore.WriteString("*\n")
		ignore.Close()
	}
	st.at = place{vfs.Join(st.in.path, st.name), id}
	return true, nil
}

func ignoreMissing(err error) error {
	if isNotExist(err) || isExist(err) {
		return nil
	}
	return explain(err)
}

// holdsLock takes the lock, and checks that its file is still the one in d.
func holdsLock(d directory, lock *os.File) bool {
	if ok, err := hostfile.TryLock(lock, true); !ok || err != nil {
		return false
	}
	mine, err := attrOfFile(lock)
	if err != nil {
		return false
	}
	there, err := d.lstat(lockName)
	return err == nil && there.same(mine)
}

// remove empties and removes the stage, and then releases its lock.
func (st *stage) remove() {
	if d, err := st.s.enter(st.in); err == nil {
		if sub, id, err := d.sub(st.name); err == nil {
			if id.same(st.at.id) {
				empty(sub)
				removeLast(d, st.name, sub, st.lock)
			}
			sub.release()
		}
		st.s.leave(d)
	}
	st.lock.Close()
}

// sweep removes staging directories in d whose owner is dead: exactly named as this
// package does, of this user, mode 0700, and with a lock that nobody holds. It removes
// regular files and staged directories in them. Anything else, which a failed undo left
// there, stays.
func (g *staging) sweep(d directory) {
	var left []string
	_ = d.entries(func(some []vfs.Entry) error {
		for _, e := range some {
			if e.Kind == vfs.DirKind && isStaging(e.Name) {
				left = append(left, e.Name)
			}
		}
		return nil
	})
	for _, name := range left {
		sweepOne(d, name)
	}
}

func sweepOne(d directory, name string) {
	a, err := d.lstat(name)
	if err != nil || a.kind != vfs.DirKind || !own(a) || !private(a) {
		return
	}
	sub, _, err := d.sub(name)
	if err != nil {
		return
	}
	defer sub.release()
	lock, _, err := sub.open(lockName, os.O_RDWR)
	if isNotExist(err) {
		lock, err = sub.create(lockName, 0o600)
	}
	if err != nil {
		return
	}
	defer lock.Close()
	if holdsLock(sub, lock) {
		empty(sub)
		removeLast(d, name, sub, lock)
	}
}

// empty removes every regular file but the lock, and every staged directory.
func empty(d directory) {
	_ = d.entries(func(some []vfs.Entry) error {
		for _, e := range some {
			switch a, err := d.lstat(e.Name); {
			case err != nil || e.Name == lockName:
			case a.kind == vfs.FileKind:
				d.unlink(e.Name)
			case a.kind == vfs.DirKind && strings.HasPrefix(e.Name, stagedDirPrefix):
				removeAll(d, e.Name)
			}
		}
		return nil
	})
}

// removeLast removes the lock and the directory, if nothing else is in it.
func removeLast(d directory, name string, sub directory, lock *os.File) {
	err := sub.entries(func(some []vfs.Entry) error {
		if slices.ContainsFunc(some, func(e vfs.Entry) bool { return e.Name != lockName }) {
			return errFound
		}
		return nil
	})
	if err != nil {
		return
	}
	if hostfile.OpenFilesStay {
		lock.Close()
	}
	sub.unlink(lockName)
	d.rmdir(name)
}

// lost turns an error that says that somebody removed the stage into busy. The next
// change makes another stage.
func (st *stage) lost(err error) error {
	if vfs.CodeOf(err) == vfs.Stale && !st.s.isClosed() {
		return vfs.Errorf(vfs.Busy, "another program removed what was staged; try again")
	}
	return err
}

// temporary returns an unused name in st.
func (st *stage) temporary() string { return "t" + strconv.FormatUint(st.next.Add(1), 10) }
