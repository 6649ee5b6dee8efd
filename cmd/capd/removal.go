package main

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"sync"

	"capd/client"
	"capd/vfs"
)

// removal removes a tree, the deepest first.
type removal struct {
	*env
	top  *client.Dir
	left map[string]failure // what stays
	turn chan struct{}      // a seat for each removal at once
	p    *progress
	mu   sync.Mutex
	n    int64
	stop error // nil until something ends the whole
}

// failure is why something stays: a name, or all names in a directory, n of them, for the same reason.
type failure struct {
	err error
	n   int
}

// like reports whether both are for the same reason.
func (f failure) like(g failure) bool {
	return vfs.CodeOf(f.err) == vfs.CodeOf(g.err) && f.reason() == g.reason()
}

// reason returns the message without the path.
func (f failure) reason() string {
	if e, ok := errors.AsType[*vfs.Error](f.err); ok {
		return e.Msg
	}
	return f.err.Error()
}

// removeTrees removes what is at paths, and everything in it. What cannot be removed stays, and so do the
// directories that hold it.
func removeTrees(e *env, d *client.Dir, paths []string) error {
	r := &removal{env: e, top: d, left: map[string]failure{}, turn: make(chan struct{}, uploads), p: newProgress(e, nil, "removed")}
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
	return cmp.Or(r.stop, r.stays())
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
	if !slices.Contains(gone, true) {
		r.fold(path, all)
	}
	return !slices.Contains(gone, false)
}

// fold makes one failure of those of all that is in the directory at path, if they are alike.
func (r *removal) fold(path string, all []vfs.InfoEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var whole failure
	for i, entry := range all {
		f, ok := r.left[vfs.Join(path, entry.Name)]
		if !ok || i > 0 && !f.like(whole) {
			return
		}
		whole = failure{f.err, whole.n + f.n}
	}
	if len(all) == 0 {
		return
	}
	for _, entry := range all {
		delete(r.left, vfs.Join(path, entry.Name))
	}
	r.left[path] = whole
}

// stays returns why some of it stays, by path, or nil.
func (r *removal) stays() error {
	var left leftovers
	for _, path := range slices.Sorted(maps.Keys(r.left)) {
		f := r.left[path]
		if f.n > 1 {
			f.err = vfs.Errorf(vfs.CodeOf(f.err), "%s (%d names in it)", f.reason(), f.n)
		}
		_ = left.add(path, f.err)
	}
	return left.err()
}

// note counts a removal, or notes why it failed.
func (r *removal) note(path string, err error) bool {
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stop = cmp.Or(r.stop, fatal(path, err))
		r.left[path] = failure{vfs.At(path, err), 1} // over the wire the message begins with the path
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
