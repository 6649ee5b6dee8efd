// Package roots translates between the paths of programs that know directories by absolute paths, and those of a Dir.
package roots

import (
	"path"
	"slices"
	"strings"

	"capd/vfs"
)

// Root is a directory that a program is shown, and where it is in the Dir that serves it.
type Root struct {
	Shown string // an absolute path, clean; what the program calls it
	At    string // a path in the Dir; "" for the Dir itself
	Real  string // the path by which the host's system knows it; "" if the program is not to name it so. Nobody is ever shown it
}

// Roots are what one program is shown, at least one.
type Roots []Root

// Outside is the error for a path that is not below a root. Its text is that of the reference server for files in MCP, and names only what was sent.
type Outside struct {
	Sent  string
	Roots string // as they are shown
}

func (e Outside) Error() string {
	return "Access denied - path outside allowed directories: " + vfs.Printable(e.Sent) + " not in " + e.Roots
}

// In returns the path in the Dir for what a program calls sent: absolute below a root, or relative to the first. "." and ".." are taken from the text.
func (rs Roots) In(sent string) (string, error) {
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
			if below, ok := Within(p, top); ok && len(top) > how {
				found, how = strings.Trim(r.At+"/"+below, "/"), len(top)
			}
		}
	}
	if how == 0 {
		return "", Outside{sent, rs.Shown(", ")}
	}
	return found, nil
}

// Begin returns the path in the Dir where a search begins: that of sent, as In returns it, or of all roots if sent is empty.
// All of the Dir is below the roots if there are several.
func (rs Roots) Begin(sent string) (string, error) {
	if sent == "" && len(rs) > 1 {
		return "", nil
	}
	return rs.In(sent)
}

// Within returns what of p is below top, and whether p is top or below it. Both are clean and absolute.
func Within(p, top string) (string, bool) {
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

// Out returns what the program calls the path at in the Dir.
func (rs Roots) Out(at string) string {
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

// Shown returns the roots as the program calls them.
func (rs Roots) Shown(between string) string {
	var all []string
	for _, r := range rs {
		all = append(all, r.Shown)
	}
	return strings.Join(all, between)
}

// Top reports whether at is a root, which is neither moved nor removed.
func (rs Roots) Top(at string) bool {
	return slices.ContainsFunc(rs, func(r Root) bool { return r.At == at })
}
