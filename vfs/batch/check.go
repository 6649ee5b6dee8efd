package batch

import (
	"context"
	"strconv"
	"strings"

	"capd/vfs"
)

// Conflict is a path at which the tree is not as a batch expects it.
type Conflict struct {
	Path         string // relative to the batch's target
	Was, Becomes State  // of the batch
	Is           State  // found; Kind may be Foreign
	Why          string // what is wrong and what to do next
}

// Conflicts is the error of a batch that found the tree changed. Its code is conflict.
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

// conflict describes the conflict at c's path, where is is found.
func (c *Change) conflict(is State) Conflict {
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
	return Conflict{Path: c.Path, Was: c.Was, Becomes: c.Becomes, Is: is, Why: why}
}

// check compares changes, in tree order, with the tree and returns those that still
// have to be made.
func check(ctx context.Context, at *cursor, changes []Change) (todo []Change, err error) {
	becomes := make(map[string]State, len(changes))
	for _, c := range changes {
		becomes[c.Path] = c.Becomes
	}
	var wrong []Conflict
	for _, c := range changes {
		is, inDir, err := at.look(ctx, c.Path)
		if err != nil {
			return nil, vfs.At(c.Path, err)
		}
		parent, _ := split(c.Path)
		switch {
		case is == c.Becomes:
			continue
		case is != c.Was:
			wrong = append(wrong, c.conflict(is))
			continue
		case !c.Becomes.Absent() && !inDir && becomes[parent].Kind != vfs.DirKind:
			w := c.conflict(is)
			w.Why = "what it would lie in is no directory"
			wrong = append(wrong, w)
			continue
		}
		todo = append(todo, c)
		if c.Was.Kind == vfs.DirKind {
			left, err := leftIn(ctx, at, c.Path, becomes)
			if err != nil {
				return nil, vfs.At(c.Path, err)
			}
			wrong = append(wrong, left...)
		}
	}
	if len(wrong) > 0 {
		return nil, &Conflicts{wrong}
	}
	return todo, nil
}

// leftIn returns what the batch would leave in the directory at path.
func leftIn(ctx context.Context, at *cursor, path string, becomes map[string]State) (left []Conflict, err error) {
	d, err := at.dir(ctx, path)
	if err != nil {
		return nil, err
	}
	for e, err := range d.List(ctx) {
		if err != nil {
			return nil, err
		}
		below := vfs.Join(path, e.Name)
		if s, ok := becomes[below]; !ok || !s.Absent() {
			kind := e.Kind
			if kind == vfs.Other {
				kind = Foreign
			}
			left = append(left, Conflict{Path: below, Is: State{Kind: kind}, Why: "it is new in a directory that is to go"})
		}
	}
	return left, nil
}
