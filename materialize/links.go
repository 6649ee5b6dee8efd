package materialize

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// A link whose target first goes up, but not above the top, and then only down cannot
// lead out of the tree, whatever other links do. A target that goes up after a name is
// different: if that name is a link, it leads somewhere else than its text says.

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

// leadsTo returns the path to which a link at path leads if its target does not wind;
// "" is the top.
func leadsTo(at, target string) string {
	to := path.Join(parent(at), target)
	if to == "." {
		return ""
	}
	return to
}

// link compares the link called name in root. Its path has depth names.
func (l *comparison) link(root *os.Root, name, path string, r *record, depth int) error {
	target, err := root.Readlink(name)
	if err != nil {
		return vfs.At(path, errBusy) // it was a link a moment ago
	}
	if out, was := l.t.outLinks[path]; was && out == target && r == nil {
		return nil // it was not copied, and somebody made it again unchanged
	}
	fresh := &record{state: diff.State{Kind: vfs.LinkKind, Target: target}}
	l.differs(path, r, fresh)
	switch {
	case r != nil && r.state == fresh.state:
		if winds(target) {
			l.winding = append(l.winding, path)
		}
	case !vfs.Within(depth-1, target), l.t.leftOutPaths.has(leadsTo(path, target)):
		l.left = append(l.left, diff.Skipped{Path: path, Why: whyOutside})
	case winds(target):
		l.left = append(l.left, diff.Skipped{Path: path, Why: "a link that goes up after it went down; make it go up first"})
	}
	return nil
}

// refuseWinding brings back no links if the new ones would make an existing link lead
// out of the tree.
func (l *comparison) refuseWinding() {
	for _, path := range l.winding {
		if _, err := l.t.root.Stat(path); err == nil || !escapes(err) {
			continue
		}
		l.refuseLinks("with it, " + vfs.Printable(path) + " would lead out of the tree")
		return
	}
}

// isLink reports whether m is of a symbolic link.
func isLink(m fs.FileMode) bool { return m&fs.ModeSymlink != 0 }

// maxLinks is how many links are followed to find out where one leads.
const maxLinks = 40

// refuseLed leaves out links that lead, through others, to what was not copied. It
// brings back no links if they would make an existing link lead there.
func (l *comparison) refuseLed() {
	fresh := l.links()
	for _, path := range fresh {
		if l.t.leftOutPaths.has(l.resolve(path)) {
			l.refuse(path, whyOutside)
		}
	}
	for _, path := range l.turned() {
		if l.t.leftOutPaths.has(l.resolve(path)) {
			l.refuseLinks("with it, " + vfs.Printable(path) + " would lead out of the tree")
			return // no existing link changes without them
		}
	}
}

// links returns the links to be brought back, in byte order.
func (l *comparison) links() (all []string) {
	for _, f := range l.found {
		if f.becomes().Kind == vfs.LinkKind && !l.out[f.path] {
			all = append(all, f.path)
		}
	}
	return all
}

// refuseLinks leaves out all links.
func (l *comparison) refuseLinks(why string) {
	for _, path := range l.links() {
		l.refuse(path, why)
	}
}

// turned returns unchanged links that lead elsewhere after the changes, in byte order.
func (l *comparison) turned() (all []string) {
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

// resolve returns where path will lead in the tree, as far as that is known.
func (l *comparison) resolve(path string) string { return resolve(path, l.stateAt) }

// resolve follows the links in path. at returns the state of each.
func resolve(path string, at func(string) diff.State) string {
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

// stateAt returns what will be at path in the Dir, as far as it was copied.
func (l *comparison) stateAt(path string) diff.State {
	if f, ok := l.find(path); ok && !l.out[path] {
		return f.becomes()
	}
	return l.t.stateBefore(path)
}

// stateBefore returns what was copied to path.
func (t *Tree) stateBefore(path string) diff.State { return t.records[path].stateOf() }
