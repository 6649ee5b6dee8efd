package materialize

import (
	"crypto/sha256"
	"sort"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
)

// Why something that changed is not brought back.
const (
	whyHolds   = "a directory that holds what is not brought back"
	whyNewName = "its name is not one that may be made"
	whyTaken   = "something that was not copied has this name where the tree came from"
	whyUnknown = "it is gone here, and may be in what could not be looked at"
	whyNames   = "a file that has names outside of what is brought back"
	whyMoved   = "it is gone here, and what took its place is not brought back: "
)

// removals are the findings by which a file or a link goes, by what it was.
type removals struct {
	all     []string
	inodes  map[inode][]string
	content map[batch.State][]string
}

// nothing is the version of an empty file, which nobody loses.
var nothing = vfs.Version(sha256.Sum256(nil))

// content is what of a State can be somewhere else as well.
func content(s batch.State) batch.State {
	s.Exec = false
	return s
}

func newRemovals(found []finding) removals {
	r := removals{inodes: map[inode][]string{}, content: map[batch.State][]string{}}
	for _, f := range found {
		was := f.was()
		if was.Kind != vfs.FileKind && was.Kind != vfs.LinkKind || f.becomes().Kind == was.Kind {
			continue
		}
		r.all = append(r.all, f.path)
		if i := f.old.attr.inode(); i.ino != 0 {
			r.inodes[i] = append(r.inodes[i], f.path)
		}
		if was.Version != nothing {
			r.content[content(was)] = append(r.content[content(was)], f.path)
		}
	}
	return r
}

// refuseAll decides what is not brought back for reasons of the tree itself.
func (l *look) refuseAll() {
	l.removed = newRemovals(l.found)
	for _, path := range l.stays {
		l.holdAbove(path + "/") // and path itself, of which a part was copied perhaps
	}
	for _, s := range l.left {
		l.refuse(s.Path, s.Why)
		l.leaveBelow(s.Path)
	}
	if l.closed {
		for _, path := range l.removed.all {
			l.refuse(path, whyUnknown)
		}
	}
	for _, f := range l.found {
		if f.old == nil && l.t.leftOutPaths.has(f.path) {
			l.refuse(f.path, whyTaken)
		}
	}
	l.refuseWinding()
	l.refuseLed()
}

// refuse leaves what is at path as it is where the tree came from, names it, and
// leaves what depends on it.
func (l *look) refuse(path, why string) {
	if !l.out[path] {
		l.skipped[path] = why
	}
	l.leave(path)
}

// leave is refuse for what is not named, since what it lies in is. What cannot be
// done without path is left too, and nothing goes whose content is at path now.
func (l *look) leave(path string) {
	if l.out[path] {
		return
	}
	l.out[path] = true
	f, ok := l.find(path)
	if !ok {
		return
	}
	was, becomes := f.was(), f.becomes()
	if f.r != nil && (was.Kind == vfs.DirKind) != (becomes.Kind == vfs.DirKind) {
		l.leaveBelow(path)
	}
	if f.old != nil && becomes.Kind != was.Kind {
		l.holdAbove(path)
	}
	if f.r == nil {
		return
	}
	moved := l.removed.content[content(becomes)]
	if i := f.r.attr.inode(); i.ino != 0 {
		moved = append(moved[:len(moved):len(moved)], l.removed.inodes[i]...)
	}
	for _, from := range moved {
		l.refuse(from, whyMoved+vfs.Printable(path))
	}
}

// leaveBelow leaves what was found below path.
func (l *look) leaveBelow(path string) {
	prefix := path + "/"
	i := sort.Search(len(l.found), func(i int) bool { return l.found[i].path >= prefix })
	for ; i < len(l.found) && strings.HasPrefix(l.found[i].path, prefix); i++ {
		l.leave(l.found[i].path)
	}
}

// holdAbove makes sure that no directory goes that holds path, which stays.
func (l *look) holdAbove(path string) {
	for dir := parent(path); dir != ""; dir = parent(dir) {
		if f, ok := l.find(dir); ok && f.was().Kind == vfs.DirKind && f.becomes().Kind != vfs.DirKind {
			l.refuse(dir, whyHolds)
		}
	}
}

// find returns what was found at path.
func (l *look) find(path string) (finding, bool) {
	i := sort.Search(len(l.found), func(i int) bool { return l.found[i].path >= path })
	if i == len(l.found) || l.found[i].path != path {
		return finding{}, false
	}
	return l.found[i], true
}
