package mcp

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"capd/vfs"
)

// Root is a directory that agents are shown, and where it is in the Dir that serves it.
type Root struct {
	Shown string // an absolute path, clean; what agents call it
	At    string // a path in the Dir; "" for the Dir itself
	Real  string // the path by which the host's system knows it; "" if the agent is not to name it so. Nobody is ever shown it
}

// roots translates between the paths of agents and those of the Dir.
type roots []Root

// outside is the error for a path that is not below a root. It names only what was sent.
type outside struct{ sent, roots string }

func (e outside) Error() string {
	return "Access denied - path outside allowed directories: " + vfs.Printable(e.sent) + " not in " + e.roots
}

// in returns the path in the Dir for what an agent calls sent: absolute below a root, or relative to the first. "." and ".." are taken from the text.
func (rs roots) in(sent string) (string, error) {
	if strings.Contains(sent, "\x00") {
		return "", vfs.Errorf(vfs.Invalid, "a path holds a NUL")
	}
	p := sent
	if !strings.HasPrefix(p, "/") {
		p = rs[0].Shown + "/" + p
	}
	p = path.Clean(p)
	var found string
	var how int
	for _, r := range rs {
		for _, top := range []string{r.Shown, r.Real} {
			if below, ok := within(p, top); ok && len(top) > how {
				found, how = strings.Trim(r.At+"/"+below, "/"), len(top)
			}
		}
	}
	if how == 0 {
		return "", outside{sent, rs.shown(", ")}
	}
	return found, nil
}

// within returns what of p is below top, and whether p is top or below it.
func within(p, top string) (string, bool) {
	switch {
	case top == "":
		return "", false
	case p == top:
		return "", true
	case top == "/":
		return p[1:], true
	}
	return strings.CutPrefix(p, top+"/")
}

// out returns what agents call the path at in the Dir.
func (rs roots) out(at string) string {
	best := rs[0]
	for _, r := range rs {
		if (at == r.At || r.At == "" || strings.HasPrefix(at, r.At+"/")) && len(r.At) >= len(best.At) {
			best = r
		}
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(at, best.At), "/")
	if rest == "" {
		return best.Shown
	}
	return strings.TrimSuffix(best.Shown, "/") + "/" + vfs.Printable(rest)
}

// shown returns the roots as agents call them.
func (rs roots) shown(between string) string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Shown)
	}
	return strings.Join(all, between)
}

// top reports whether at is a root, which is neither moved nor removed.
func (rs roots) top(at string) bool {
	return slices.ContainsFunc(rs, func(r Root) bool { return r.At == at })
}

// fileURL returns the file URL of a shown path.
func fileURL(shown string) string { return (&url.URL{Scheme: "file", Path: shown}).String() }
