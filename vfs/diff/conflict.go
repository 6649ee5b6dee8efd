package diff

import (
	"strconv"
	"strings"

	"capd/vfs"
)

// Conflict is a path at which a tree is not as a change expects it.
type Conflict struct {
	Path         string `json:"path"` // relative to the tree's root
	Was, Becomes State  `json:"-"`    // of the change
	Is           State  `json:"-"`    // found; Kind may be Foreign
	Why          string `json:"why"`  // what is wrong and what to do next
}

// Conflicts is the error of changes that found the tree changed. Its code is conflict.
type Conflicts struct {
	Paths []Conflict // all, in tree order
}

// maxListed bounds the number of paths in the text of Conflicts, and maxShown the bytes
// of each.
const (
	maxListed = 10
	maxShown  = 200
)

// Error names the first paths.
func (c *Conflicts) Error() string {
	var b strings.Builder
	b.WriteString(string(vfs.Conflict) + ": " + c.message() + ":")
	for i, p := range c.Paths {
		if i == maxListed {
			b.WriteString(" and " + strconv.Itoa(len(c.Paths)-i) + " more")
			break
		}
		if i > 0 {
			b.WriteByte(',')
		}
		path := p.Path
		if len(path) > maxShown {
			path = "…" + path[len(path)-maxShown:]
		}
		b.WriteString(" " + vfs.Printable(path) + " (" + p.Why + ")")
	}
	return b.String()
}

func (c *Conflicts) message() string {
	if len(c.Paths) == 1 {
		return "one path is no longer as it was, so that nothing was changed; look at it and try again"
	}
	return strconv.Itoa(len(c.Paths)) + " paths are no longer as they were, so that nothing was changed; look at them and try again"
}

// Unwrap returns c as an error with a code.
func (c *Conflicts) Unwrap() error { return &vfs.Error{Code: vfs.Conflict, Msg: c.message()} }

// Conflict describes the conflict at c's path, where is is found.
func (c *Change) Conflict(is State) Conflict {
	why := "it is " + is.String() + " now"
	switch {
	case is.Absent():
		why = "it is gone"
	case c.Was.Absent():
		why = "a " + is.String() + " has the name"
	case is.Kind == Foreign:
		why = "it is no file, directory or link now"
	case is.Kind == c.Was.Kind:
		why = "it was changed"
	}
	return Conflict{Path: c.Path, Was: c.Was, Becomes: c.Is, Is: is, Why: why}
}
