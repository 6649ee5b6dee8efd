package materialize

import (
	"crypto/sha256"
	"sort"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// Reasons for not bringing back a change.
const (
	whyHolds   = "a directory that holds what is not brought back"
	whyNewName = "its name is not one that may be made"
	whyTaken   = "something that was not copied has this name where the tree came from"
	whyUnknown = "it is gone here, and may be in what could not be looked at"
	whyNames   = "a file that has names outside of what is brought back"
	whyMoved   = "it is gone here, and what took its place is not brought back: "
)

// removals are the findings that remove a file or a link, by its content.
type removals struct {
	all     []string
	inodes  map[inode][]string
	content map[diff.State][]string
}

// nothing is the version of an empty file, whose loss does not matter.
var nothing = vfs.Version(sha256.Sum256(nil))

// content returns the part of a State that may be found elsewhere as well.
func content(s diff.State) diff.State {
	s.Exec = false
	return s
}

func newRemovals(found []finding) removals {
	r := removals{inodes: map[inode][]string{}, content: map[diff.State][]string{}}
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
func (l *comparison) refuseAll() {
	l.removed = newRemovals(l.found)
	for _, path := range l.stays {
		l.holdAbove(path + "/") // and path itself, which may be copied in part
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

// refuse leaves the Dir unchanged at path, reports path, and leaves out what depends on
// it.
func (l *comparison) refuse(path, why string) {
	if !l.out[path] {
		l.skipped[path] = why
	}
	l.leave(path)
}

// leave is refuse without a report, for a path in a directory that is reported. It also
// leaves out what needs path, and removals of content that path has now.
func (l *comparison) leave(path string) {
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

// leaveBelow leaves out the findings below path.
func (l *comparison) leaveBelow(path string) {
	prefix := path + "/"
	i := sort.Search(len(l.found), func(i int) bool { return l.found[i].path >= prefix })
	for ; i < len(l.found) && strings.HasPrefix(l.found[i].path, prefix); i++ {
		l.leave(l.found[i].path)
	}
}

// holdAbove makes sure that no directory above path, which stays, is removed.
func (l *comparison) holdAbove(path string) {
	for dir := parent(path); dir != ""; dir = parent(dir) {
		if f, ok := l.find(dir); ok && f.was().Kind == vfs.DirKind && f.becomes().Kind != vfs.DirKind {
			l.refuse(dir, whyHolds)
		}
	}
}

// find returns the finding at path.
func (l *comparison) find(path string) (finding, bool) {
	i := sort.Search(len(l.found), func(i int) bool { return l.found[i].path >= path })
	if i == len(l.found) || l.found[i].path != path {
		return finding{}, false
	}
	return l.found[i], true
}
