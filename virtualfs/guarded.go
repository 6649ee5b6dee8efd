package virtualfs

import (
	"fmt"
	"slices"
	"strings"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// unasked returns guards that need no approval. In an overlay that comes later: what guests write there waits for the host.
func unasked(guards []membrane.Guard) []membrane.Guard {
	all := slices.Clone(guards)
	for i := range all {
		all[i].Asks = nil
	}
	return all
}

// asks reports whether a change at path needs an approval.
func asks(guards []membrane.Guard, path string) bool {
	return slices.ContainsFunc(guards, func(g membrane.Guard) bool {
		if g.Asks == nil {
			return false
		}
		at := g.Asks
		for name := range strings.SplitSeq(path, "/") {
			at = at.Step(name)
		}
		return at.Matched()
	})
}

// maxNamed bounds how many guarded paths an error names, and maxNamedBytes the bytes of each.
const (
	maxNamed      = 10
	maxNamedBytes = 200
)

// guarded answers askDenied if changes that o applies are at guarded paths, unless o lets these in.
func (m *mount) guarded(all []diff.Change, o operator.ApplyOptions) error {
	var paths []string
	for _, c := range all {
		if !chosen(o.Paths, c) || o.Theirs != nil && chosen(o.Theirs, c) {
			continue
		}
		if asks(m.guards, c.Path) || c.From != "" && asks(m.guards, c.From) {
			paths = append(paths, c.Path)
		}
	}
	if len(paths) == 0 || o.Guarded {
		return nil
	}
	var list strings.Builder
	for i, p := range paths {
		if i == maxNamed {
			fmt.Fprintf(&list, " and %d more", len(paths)-i)
			break
		}
		list.WriteString(" " + vfs.Printable(p[:min(len(p), maxNamedBytes)]))
	}
	return vfs.Errorf(vfs.AskDenied, "guarded files would change, so nothing was changed:%s; look at the diff of these, and apply with guarded, or apply other paths", list.String())
}
