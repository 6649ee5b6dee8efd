package vfstest

import (
	"context"
	"fmt"

	"capd/vfs"
)

// picture is a whole tree: what is at each path, and the totals.
type picture struct {
	nodes map[string]string
	total vfs.Effect
}

// picture walks the tree. It leaves out modification times.
func (w *world) picture() picture {
	w.Helper()
	p, err := look(w.ctx, w.root)
	w.ok("walking the tree", err)
	return p
}

// look walks a tree with Dir's methods alone, and reports contradictions.
func look(ctx context.Context, d vfs.Dir) (picture, error) {
	p := picture{nodes: map[string]string{}}
	return p, p.draw(ctx, d, "")
}

func (p *picture) draw(ctx context.Context, d vfs.Dir, path string) error {
	last := ""
	for e, err := range d.List(ctx) {
		if err != nil {
			return fmt.Errorf("List of %q: %w", path, err)
		}
		if last != "" && e.Name <= last {
			return fmt.Errorf("List of %q: %q comes after %q", path, e.Name, last)
		}
		last = e.Name
		if err := p.drawNode(ctx, d, e, vfs.Join(path, e.Name)); err != nil {
			return err
		}
	}
	return nil
}

func (p *picture) drawNode(ctx context.Context, d vfs.Dir, e vfs.Entry, at string) error {
	n, err := d.Lookup(ctx, e.Name)
	if err != nil {
		return fmt.Errorf("Lookup of %q, which List yields: %w", at, err)
	}
	defer n.Close()
	info, err := n.Stat(ctx)
	if err != nil {
		return fmt.Errorf("Stat of %q, which List yields: %w", at, err)
	}
	if info.Kind != e.Kind {
		return fmt.Errorf("%q is a %v to List and a %v to Stat", at, e.Kind, info.Kind)
	}
	p.total.Nodes++
	switch n := n.(type) {
	case vfs.Dir:
		p.nodes[at] = "directory"
		return p.draw(ctx, n, at)
	case vfs.File:
		data, err := readAll(ctx, n)
		if err != nil {
			return fmt.Errorf("reading %q: %w", at, err)
		}
		p.total.Bytes += int64(len(data))
		p.nodes[at] = fmt.Sprintf("file exec=%v %d %v", info.Exec, len(data), sum(data))
	case vfs.Link:
		target, err := n.Target(ctx)
		if err != nil {
			return fmt.Errorf("Target of %q: %w", at, err)
		}
		p.nodes[at] = "link " + target
	}
	return nil
}

// unchanged checks that the tree is as it was.
func (w *world) unchanged(what string, before picture) {
	w.Helper()
	if d := differ(before, w.picture()); d != "" {
		w.Errorf("%s: something changed: %s", what, d)
	}
}

// differ returns a path at which two pictures differ, or "".
func differ(a, b picture) string {
	for path, n := range a.nodes {
		if b.nodes[path] != n {
			return fmt.Sprintf("%s: was %q, is %q", path, n, b.nodes[path])
		}
	}
	for path, n := range b.nodes {
		if _, ok := a.nodes[path]; !ok {
			return fmt.Sprintf("%s: is new: %q", path, n)
		}
	}
	return ""
}
