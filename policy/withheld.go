package policy

import (
	"strings"

	"capd/operator"
	"capd/vfs/diff"
	"capd/vfs/membrane"
)

// Withheld returns a matcher, at the top of the host's tree, of the paths that a grant of s which stands at path does not
// see, whatever its rights are. These are what the host has mounted for others, roots that are given by name alone, and the
// directories of others in roots where each guest has one of its own. It sees those of the roots in which it stands. The
// matcher is nil if there is nothing to withhold.
func (r *Roots) Withheld(s operator.Subject, path string) membrane.Matcher {
	top := &withheld{}
	scopes := !operator.InScopes(path) && diff.Within(operator.ScopesDir, path)
	for _, root := range r.all {
		if scopes && root.Kind == operator.Workspace {
			top.at(operator.ScopesDir).matched = true
		}
		if !diff.Within(root.Path, path) || root.Path == path {
			continue
		}
		switch {
		case Defaults(root.Kind, s.Kind()).Named:
			top.at(root.Path).matched = true
		case !root.Drafted() && !seesAll(root, s):
			top.at(root.Path).apart = true
			if Defaults(root.Kind, s.Kind()).Most != 0 {
				top.at(root.Own(s))
			}
		default:
			top.at(root.Path) // it may be inside one that is apart
		}
	}
	if !top.withholds() {
		return nil
	}
	return top
}

// withheld is a matcher of whole names: of the paths that were given to withhold, and of what is below these.
type withheld struct {
	matched bool
	apart   bool // names that are not in below are matched, too
	below   map[string]*withheld
}

// elsewhere is where no path can match any more, and others is what lies apart.
var elsewhere, others = &withheld{}, &withheld{matched: true}

// at returns the node for path, which it makes if it is missing.
func (n *withheld) at(path string) *withheld {
	if path == "" {
		return n
	}
	for name := range strings.SplitSeq(path, "/") {
		next := n.below[name]
		if next == nil {
			next = &withheld{}
			if n.below == nil {
				n.below = map[string]*withheld{}
			}
			n.below[name] = next
		}
		n = next
	}
	return n
}

// withholds reports whether a path at n or below it matches.
func (n *withheld) withholds() bool {
	if n.matched || n.apart {
		return true
	}
	for _, next := range n.below {
		if next.withholds() {
			return true
		}
	}
	return false
}

// Matched implements [membrane.Matcher].
func (n *withheld) Matched() bool { return n.matched }

// Step implements [membrane.Matcher].
func (n *withheld) Step(name string) membrane.Matcher {
	if n.matched {
		return n
	}
	if next := n.below[name]; next != nil {
		return next
	}
	if n.apart {
		return others
	}
	return elsewhere
}

// Same implements [membrane.Matcher].
func (n *withheld) Same(to membrane.Matcher) bool { return membrane.Matcher(n) == to }
