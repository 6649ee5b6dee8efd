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

// Submodules returns the submodules of the tree that the store shows now, in byte order
// of paths.
func (s *Store) Submodules(ctx context.Context) (all []Submodule, err error) {
	defer func() { err = ambient(err) }()
	if err := s.look(ctx); err != nil {
		return nil, err
	}
	defer s.mu.RUnlock()
	root, err := s.directory(s.root)
	if err != nil {
		return nil, err
	}
	urls := map[string]string{}
	if it := root.find(".gitmodules"); it != nil && it.kind() == vfs.FileKind {
		text, err := s.text(ctx, it, maxModules)
		if err != nil {
			return nil, err
		}
		if cfg, err := parseConfig(text); err == nil {
			for _, sub := range cfg.Section("submodule").Subsections {
				urls[path.Clean(sub.Option("path"))] = sub.Option("url")
			}
		}
	}
	err = s.eachBelow(ctx, root, "", 0, func(at string, it *item) {
		if it.mode == filemode.Submodule {
			all = append(all, Submodule{Path: at, Commit: it.id.String(), URL: urls[at]})
		}
	})
	slices.SortFunc(all, func(a, b Submodule) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// eachBelow visits what is below d, with its path. Needs s.mu for reading.
func (s *Store) eachBelow(ctx context.Context, d *directory, at string, depth int, visit func(string, *item)) error {
	if depth > maxTreeDepth {
		return errDeep
	}
	for it := range d.all() {
		path := vfs.Join(at, it.name)
		visit(path, it)
		if it.kind() != vfs.DirKind {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		below, err := s.directory(it)
		if err != nil {
			return err
		}
		if err := s.eachBelow(ctx, below, path, depth+1, visit); err != nil {
			return err
		}
	}
	return nil
}
