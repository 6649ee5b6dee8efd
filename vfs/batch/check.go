package batch

import (
	"context"

	"capd/vfs"
	"capd/vfs/diff"
)

// check compares changes, in tree order, with the tree and returns those that still
// have to be made.
func check(ctx context.Context, at *diff.Cursor, changes []diff.Change) (todo []diff.Change, err error) {
	becomes := make(map[string]diff.State, len(changes))
	for _, c := range changes {
		becomes[c.Path] = c.Is
	}
	var wrong []diff.Conflict
	for _, c := range changes {
		is, inDir, err := look(ctx, at, c.Path)
		if err != nil {
			return nil, vfs.At(c.Path, err)
		}
		parent, _ := diff.Split(c.Path)
		switch {
		case is == c.Is:
			continue
		case is != c.Was:
			wrong = append(wrong, c.Conflict(is))
			continue
		case !c.Is.Absent() && !inDir && becomes[parent].Kind != vfs.DirKind:
			w := c.Conflict(is)
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
		return nil, &diff.Conflicts{Paths: wrong}
	}
	return todo, nil
}

// leftIn returns what the batch would leave in the directory at path.
func leftIn(ctx context.Context, at *diff.Cursor, path string, becomes map[string]diff.State) (left []diff.Conflict, err error) {
	d, err := at.Dir(ctx, path)
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
				kind = diff.Foreign
			}
			left = append(left, diff.Conflict{Path: below, Is: diff.State{Kind: kind}, Why: "it is new in a directory that is to go"})
		}
	}
	return left, nil
}
