package git

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// Submodule is a place in the tree for another repository.
type Submodule struct {
	Path   string
	Commit string // of the other repository, in hexadecimal digits
	URL    string // from .gitmodules; "" if it has none
}

// Submodules returns the submodules of the commit that the store shows now, in byte
// order of paths.
func (s *Store) Submodules(ctx context.Context) (all []Submodule, err error) {
	defer func() { err = ambient(err) }()
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	id := s.base.tree
	s.mu.RUnlock()
	root, err := s.tree(id)
	if err != nil {
		return nil, err
	}
	urls := map[string]string{}
	if e, ok := root.find(".gitmodules"); ok && kindOf(e.mode) == vfs.FileKind {
		text, err := s.text(ctx, e, maxModules)
		if err != nil {
			return nil, err
		}
		if cfg, err := parseConfig(text); err == nil {
			for _, sub := range cfg.Section("submodule").Subsections {
				urls[path.Clean(sub.Option("path"))] = sub.Option("url")
			}
		}
	}
	err = s.eachSubmodule(ctx, root, "", 0, func(at string, e entry) {
		all = append(all, Submodule{Path: at, Commit: e.id.String(), URL: urls[at]})
	})
	slices.SortFunc(all, func(a, b Submodule) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// eachSubmodule visits the submodules below t, with their paths.
func (s *Store) eachSubmodule(ctx context.Context, t *tree, at string, depth int, visit func(string, entry)) error {
	if depth > MaxDepth {
		return errDeep
	}
	for _, off := range t.at {
		e := t.entry(off)
		path := vfs.Join(at, e.name)
		switch e.mode {
		case filemode.Submodule:
			visit(path, e)
		case filemode.Dir:
			if err := ctx.Err(); err != nil {
				return err
			}
			below, err := s.tree(e.id)
			if err != nil {
				return err
			}
			if err := s.eachSubmodule(ctx, below, path, depth+1, visit); err != nil {
				return err
			}
		}
	}
	return nil
}
