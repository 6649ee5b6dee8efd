package deny

import (
	"strings"
	"unicode/utf8"

	"capd/vfs"
)

// names are the patterns that look at one name wherever it stands: **/NAME and
// **/NAME/**, where NAME has at most one *. Most patterns are of that kind, and a path
// is held against all of them at once.
type names struct {
	whole   map[string]bool // true: of any name on the way, and not only of the last
	affixes []affix
	rest    []*vfs.Pattern // all others
}

// affix is a name with one *.
type affix struct {
	before, after string
	any           bool // as in names.whole
}

func (n *names) add(text string, p *vfs.Pattern) {
	name, ok := strings.CutPrefix(text, "**/")
	name, any := strings.CutSuffix(name, "/**")
	before, after, star := strings.Cut(name, "*")
	switch {
	case !ok || name == "" || strings.ContainsAny(before+after, `/*?[\{}`):
		n.rest = append(n.rest, p)
	case star:
		n.affixes = append(n.affixes, affix{before, after, any})
	default:
		if n.whole == nil {
			n.whole = map[string]bool{}
		}
		n.whole[name] = n.whole[name] || any
	}
}

func (n *names) match(path string) bool {
	for rest, more := path, true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		if any, ok := n.whole[name]; ok && (any || !more) {
			return true
		}
		for i := range n.affixes {
			a := &n.affixes[i]
			if (a.any || !more) && len(name) >= len(a.before)+len(a.after) && strings.HasPrefix(name, a.before) && strings.HasSuffix(name, a.after) {
				return true
			}
		}
	}
	return covers(n.rest, path)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
