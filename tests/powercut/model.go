package powercut

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inode is a file, directory or link of the model.
type inode struct {
	kind   fs.FileMode // its type bits
	mode   fs.FileMode // at its creation
	target string      // of a link
	parts  []*part     // all changes of it, in order

	now map[string]*inode // of a directory: its entries while the program runs
}

// part is one change of an inode.
type part struct {
	at     int // the index of the call that made it
	synced int // the index of the call after which it is on disk

	// Of a directory: the node that the name refers to then, or nil.
	name  string
	child *inode
	with  *part // of a rename: the change of the new name, with which this one reaches the disk, unless it was synced alone

	// Of a file.
	chmod bool
	mode  fs.FileMode
	cut   bool  // the file is truncated or extended to size off
	off   int64 // the offset of data
	data  []byte
}

// keeping is the effect of a power cut on a change that is not on disk.
type keeping int

const (
	lost   keeping = iota
	kept           // it is on disk anyway
	zeroed         // a file has its length, but zeros in place of the data
)

// onDisk returns what dir contains, all of it synced.
func onDisk(dir string) (*inode, error) {
	fi, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	n := &inode{kind: fi.Mode().Type(), mode: fi.Mode().Perm()}
	switch n.kind {
	case fs.ModeSymlink:
		n.target, err = os.Readlink(dir)
	case 0:
		var data []byte
		data, err = os.ReadFile(dir)
		n.add(&part{at: -1, synced: -1, data: data})
	case fs.ModeDir:
		n.now = map[string]*inode{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			child, err := onDisk(filepath.Join(dir, e.Name()))
			if err != nil {
				return nil, err
			}
			n.name(-1, e.Name(), child).synced = -1
		}
	}
	return n, err
}

func (n *inode) add(p *part) *part {
	if p.synced == 0 {
		p.synced = math.MaxInt
	}
	n.parts = append(n.parts, p)
	return p
}

// name records that a name in n refers to child, or was removed if child is nil.
func (n *inode) name(at int, name string, child *inode) *part {
	if child == nil {
		delete(n.now, name)
	} else {
		n.now[name] = child
	}
	return n.add(&part{at: at, name: name, child: child})
}

// sync marks the changes of n from before call before as on disk once call done
// has ended.
func (n *inode) sync(before, done int) {
	for _, p := range n.parts {
		if p.at < before {
			p.synced = min(p.synced, done)
		}
	}
}

// all calls visit for n and everything that ever was below it.
func (n *inode) all(visit func(*inode)) {
	seen := map[*inode]bool{}
	var walk func(*inode)
	walk = func(n *inode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		visit(n)
		for _, p := range n.parts {
			walk(p.child)
		}
	}
	walk(n)
}

// unsynced returns the changes that a power cut after the first calls calls may lose.
func (n *inode) unsynced(calls int) (all []*part) {
	n.all(func(n *inode) {
		for _, p := range n.parts {
			if p.at < calls && p.synced >= calls {
				all = append(all, p)
			}
		}
	})
	slices.SortStableFunc(all, func(a, b *part) int { return a.at - b.at })
	return all
}

// left returns what a power cut after the first calls calls leaves below n. keeps says
// what happens to each change that may be lost.
func (n *inode) left(calls int, keeps func(*part) keeping) tree {
	fate := func(p *part) keeping {
		if p.synced < calls {
			return kept
		}
		return keeps(p)
	}
	forced := map[*part]bool{}
	n.all(func(n *inode) {
		for _, p := range n.parts {
			if p.with != nil && p.at < calls && p.synced >= calls && fate(p) == kept {
				forced[p.with] = true
			}
		}
	})
	c := cut{calls, func(p *part) keeping {
		if forced[p] {
			return kept
		}
		return fate(p)
	}}
	return c.below(n, "", nil)
}

// cut is a power cut: after how many calls, and what happens to each change.
type cut struct {
	calls int
	fate  func(*part) keeping
}

func (c cut) below(n *inode, path string, into tree) tree {
	names := map[string]*inode{}
	for _, p := range n.parts {
		if p.at < c.calls && c.fate(p) != lost {
			names[p.name] = p.child
		}
	}
	for _, name := range sorted(names) {
		child := names[name]
		if child == nil {
			continue
		}
		l := leaf{path: filepath.Join(path, name), mode: child.kind | child.mode, data: []byte(child.target)}
		if child.kind == 0 {
			l.mode, l.data = c.content(child)
		}
		into = append(into, l)
		if child.kind == fs.ModeDir {
			into = c.below(child, l.path, into)
		}
	}
	return into
}

func sorted(names map[string]*inode) []string {
	all := make([]string, 0, len(names))
	for name := range names {
		all = append(all, name)
	}
	slices.SortFunc(all, strings.Compare)
	return all
}

// content returns the mode and content that are left of a file.
func (c cut) content(n *inode) (mode fs.FileMode, data []byte) {
	mode = n.mode
	for _, p := range n.parts {
		fate := c.fate(p)
		switch {
		case p.at >= c.calls || fate == lost:
		case p.chmod:
			if fate == kept {
				mode = p.mode
			}
		case p.cut:
			data = resized(data, p.off)
		default:
			if end := p.off + int64(len(p.data)); end > int64(len(data)) {
				data = resized(data, end)
			}
			if fate == kept {
				copy(data[p.off:], p.data)
			}
		}
	}
	return mode, data
}

// resized returns a copy of data with that size.
func resized(data []byte, size int64) []byte {
	return append(slices.Clone(data[:min(int64(len(data)), size)]), make([]byte, max(0, size-int64(len(data))))...)
}
