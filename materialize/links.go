package materialize

import (
	"io/fs"
	"os"
	"path"
	"strings"

	"capd/vfs"
	"capd/vfs/batch"
)

// A link cannot lead out of the tree, whatever other links do, when its target goes up
// first, not above the top, and then only down. One that goes up after a name may lead
// elsewhere than it seems, when that name is a link.

// winds reports whether target goes up after a name.
func winds(target string) bool {
	down := false
	for name := range strings.SplitSeq(target, "/") {
		switch name {
		case "", ".":
		case "..":
			if down {
				return true
			}
		default:
			down = true
		}
	}
	return false
}

// leadsTo is the path that a link at path leads to which does not wind, and "" for the top.
func leadsTo(at, target string) string {
	to := path.Join(parent(at), target)
	if to == "." {
		return ""
	}
	return to
}

// link looks at the link that is called name in root, at a path of depth names.
func (l *look) link(root *os.Root, name, path string, r *record, depth int) error {
	target, err := root.Readlink(name)
	if err != nil {
		return vfs.At(path, errBusy) // it was one a moment ago
	}
	if out, was := l.t.outLinks[path]; was && out == target && r == nil {
		return nil // it was not copied, and was made again as it was
	}
	fresh := &record{state: batch.State{Kind: vfs.LinkKind, Target: target}}
	l.differs(path, r, fresh)
	switch {
	case r != nil && r.state == fresh.state:
		if winds(target) {
			l.winding = append(l.winding, path)
		}
	case !vfs.Within(depth-1, target), l.t.leftOutPaths.has(leadsTo(path, target)):
		l.left = append(l.left, Skipped{path, whyOutside})
	case winds(target):
		l.left = append(l.left, Skipped{path, "a link that goes up after it went down; make it go up first"})
	}
	return nil
}

// refuseWinding brings back no link, when with those that are new another leads out
// of the tree that did not before.
func (l *look) refuseWinding() {
	for _, path := range l.winding {
		if _, err := l.t.root.Stat(path); err == nil || !escapes(err) {
			continue
		}
		for _, f := range l.found {
			if f.becomes().Kind == vfs.LinkKind {
				l.refuse(f.path, "with it "+vfs.Printable(path)+" leads out of the tree")
			}
		}
	}
}

// isLink reports whether m is of a symbolic link.
func isLink(m fs.FileMode) bool { return m&fs.ModeSymlink != 0 }

// maxLinks is how many links are followed to find out where one leads.
const maxLinks = 40

// resolve is where path leads to in the tree when the links on the way are followed,
// as far as these are known and do not wind.
func (l *look) resolve(path string) string {
	for range maxLinks {
		next := l.follow(path)
		if next == path {
			break
		}
		path = next
	}
	return path
}

// follow follows the first link on the way of path.
func (l *look) follow(path string) string {
	for i := 0; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		s := l.stateAt(path[:i])
		if s.Kind == vfs.LinkKind && s.Target[0] != '/' && !winds(s.Target) {
			return strings.Trim(vfs.Join(leadsTo(path[:i], s.Target), strings.TrimPrefix(path[i:], "/")), "/")
		}
	}
	return path
}

// stateAt is what was found at path, or was there.
func (l *look) stateAt(path string) batch.State {
	if f, ok := l.find(path); ok {
		return f.becomes()
	}
	if r := l.t.records[path]; r != nil {
		return r.state
	}
	return batch.State{}
}
