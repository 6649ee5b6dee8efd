package main

import (
	"cmp"
	"sync"

	"capd/client"
	"capd/vfs"
)

// removal removes a tree, the deepest first.
type removal struct {
	*env
	top  *client.Dir
	left leftovers
	turn chan struct{} // a seat for each removal at once
	p    *progress
	mu   sync.Mutex
	n    int64
	stop error // nil until something ends the whole
}

// removeTrees removes what is at paths, and everything in it. What cannot be removed stays, and so do the
// directories that hold it.
func removeTrees(e *env, d *client.Dir, paths []string) error {
	r := &removal{env: e, top: d, turn: make(chan struct{}, uploads), p: newProgress(e, nil, "removed")}
	defer r.p.end()
	for _, path := range paths {
		n, err := d.Walk(e, path, false)
		switch {
		case err == nil:
			n.Close()
			r.remove(path, vfs.KindOf(n))
		case len(paths) == 1:
			return err
		default:
			r.note(path, err)
		}
		if r.stopped() != nil {
			break
		}
	}
	return cmp.Or(r.stop, r.left.err())
}

// remove reports whether path is gone.
func (r *removal) remove(path string, kind vfs.Kind) (gone bool) {
	if kind == vfs.DirKind && !r.empty(path) {
		return false
	}
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	if r.stopped() != nil {
		return false
	}
	err := r.top.RemovePath(r, path, vfs.If{})
	if vfs.CodeOf(err) == vfs.NotFound { // somebody else has removed it
		err = nil
	}
	return r.note(path, err)
}

// empty removes what is in the directory at path.
func (r *removal) empty(path string) bool {
	var all []vfs.InfoEntry
	for entry, err := range r.top.WalkList(r, path, false) {
		if err != nil {
			return r.note(path, err)
		}
		all = append(all, entry)
	}
	var under sync.WaitGroup
	gone := make([]bool, len(all))
	for i, entry := range all {
		at := vfs.Join(path, entry.Name)
		if entry.Kind == vfs.DirKind { // one at a time, or a deep tree takes a goroutine for each directory
			gone[i] = r.remove(at, entry.Kind)
			continue
		}
		if r.stopped() != nil {
			break
		}
		under.Go(func() { gone[i] = r.remove(at, entry.Kind) })
		if i%(4*uploads) == 4*uploads-1 {
			under.Wait()
		}
	}
	under.Wait()
	for _, is := range gone {
		if !is {
			return false
		}
	}
	return true
}

// note counts a removal, or notes why it failed.
func (r *removal) note(path string, err error) bool {
	if err != nil {
		err = r.left.add(path, err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stop = cmp.Or(r.stop, err)
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	r.p.entries(r.n)
	return true
}

func (r *removal) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop
}
