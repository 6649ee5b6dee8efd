package materialize

import (
	"io/fs"
	"os"
	"path"
	"slices"
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
		l.refuseLinks("with it " + vfs.Printable(path) + " leads out of the tree")
		return
	}
}

// isLink reports whether m is of a symbolic link.
func isLink(m fs.FileMode) bool { return m&fs.ModeSymlink != 0 }

// maxLinks is how many links are followed to find out where one leads.
const maxLinks = 40

// refuseLed leaves the links that lead, by way of others, to what was not copied, and
// brings back no link with which one that was there leads there now.
func (l *look) refuseLed() {
	fresh := l.links()
	for _, path := range fresh {
		if l.t.leftOutPaths.has(l.resolve(path)) {
			l.refuse(path, whyOutside)
		}
	}
	for _, path := range l.turned() {
		if l.t.leftOutPaths.has(l.resolve(path)) {
			l.refuseLinks("with it " + vfs.Printable(path) + " leads out of the tree")
			return // none turns without
		}
	}
}

// links are the links that are to be brought back, in byte order.
func (l *look) links() (all []string) {
	for _, f := range l.found {
		if f.becomes().Kind == vfs.LinkKind && !l.out[f.path] {
			all = append(all, f.path)
		}
	}
	return all
}

// refuseLinks brings back no link.
func (l *look) refuseLinks(why string) {
	for _, path := range l.links() {
		l.refuse(path, why)
	}
}

// turned are the links that stay as they were and lead elsewhere by what is brought
// back, in byte order.
func (l *look) turned() (all []string) {
	if len(l.links()) == 0 {
		return nil
	}
	for path, r := range l.t.records {
		if r.state.Kind != vfs.LinkKind || l.stateAt(path) != r.state {
			continue
		}
		if l.resolve(path) != resolve(path, l.t.stateBefore) {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// resolve is where path will lead to in the tree, as far as that is known.
func (l *look) resolve(path string) string { return resolve(path, l.stateAt) }

// resolve follows the links in path, of which each is what at says.
func resolve(path string, at func(string) batch.State) string {
	done, followed := "", 0
	for rest := path; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			done = parent(done)
			continue
		}
		next := strings.TrimPrefix(done+"/"+name, "/")
		if s := at(next); s.Kind == vfs.LinkKind && s.Target[0] != '/' && followed < maxLinks {
			rest = s.Target + "/" + rest
			followed++
		} else {
			done = next
		}
	}
	return done
}

// stateAt is what will be at path where the tree came from, as far as it was copied.
func (l *look) stateAt(path string) batch.State {
	if f, ok := l.find(path); ok && !l.out[path] {
		return f.becomes()
	}
	return l.t.stateBefore(path)
}

// stateBefore is what was copied to path.
func (t *Tree) stateBefore(path string) batch.State {
	if r := t.records[path]; r != nil {
		return r.state
	}
	return batch.State{}
}
