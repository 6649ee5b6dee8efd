package worlds

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"capd/backend/physical"
	"capd/client"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/search"
)

// What the ignore files of the tree say: those of the root, and those of each module.
const (
	rootIgnores   = "*.log\n/module*/package07/\nnode_modules/\n!keep.log\n"
	moduleIgnores = "part9/\n*.tmp\n"
)

// ignoring measures finding files by name, and the shape of a tree, without what ignore files name. fd counts
// them only in a repository, so the tree is one.
func ignoring(o Options, s *sizes, dir string) world {
	fd := findFd()
	var files, all []string
	var locator string
	var served func() error
	byFd := func(name string, want *[]string, args ...string) *contender {
		return &contender{name: name, missing: fd.missing, run: func(ctx context.Context) (func() error, error) {
			out, err := fd.run(ctx, dir, args...)
			return func() error {
				var paths []string
				for line := range bytes.Lines(out) {
					paths = append(paths, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(string(line)), "./"), "/"))
				}
				return same(paths, *want)
			}, err
		}}
	}
	inGo := func(name string, want *[]string, find func(context.Context, vfs.Dir) ([]string, error)) *contender {
		return &contender{name: name, run: func(ctx context.Context) (func() error, error) {
			store, err := physical.OpenAmbient(dir, physical.Options{})
			if err != nil {
				return nil, err
			}
			defer store.Close()
			root := membrane.Guarded(store.ReadOnlyRoot(), nil, deny.Must(deny.Secrets...).Guard())
			defer root.Close()
			paths, err := find(ctx, root)
			return func() error { return same(paths, *want) }, err
		}}
	}
	overWire := &contender{name: "client.Dir.Glob", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var paths []string
		for e, err := range conn.Dir(ctx).SubDir(o.Served).Glob(ctx, searched, client.LeaveIgnored, client.LeaveHidden) {
			if err != nil {
				return nil, err
			}
			paths = append(paths, e.Name)
		}
		return func() error { return same(paths, files) }, nil
	}}
	globFd := byFd("fd -g", &files, "-g", searchedFd)
	of := fmt.Sprintf("%s files with ignore files, ", count(s.searched()))
	return world{
		rows: []row{
			{name: "glob " + searched + " over " + of + "in Go", floor: globFd, capd: inGo("search.Search", &files, globIgnoring), target: 1.2},
			{name: "glob " + searched + " over " + of + "over the wire", floor: globFd, capd: overWire, target: 1.3},
			{name: "tree of " + of + "in Go", floor: byFd("fd", &all), capd: inGo("search.Outline", &all, outline), target: 1.2},
		},
		setup: func(ctx context.Context) (err error) {
			if _, err = plant(dir, s.searched()); err != nil {
				return err
			}
			if files, all, err = plantIgnores(dir); err != nil {
				return err
			}
			locator, served, err = o.Serve(ctx, dir)
			return err
		},
		close: func() error {
			if served == nil {
				return nil
			}
			return served()
		},
	}
}

func globIgnoring(ctx context.Context, root vfs.Dir) (paths []string, err error) {
	pattern, err := search.Compile(searched)
	if err != nil {
		return nil, err
	}
	err = search.Search{Pattern: pattern.NoHidden(), IgnoreFiles: true, Visit: func(path string, _ vfs.Kind, hit bool, _ int) bool {
		if hit {
			paths = append(paths, path)
		}
		return true
	}}.In(ctx, root)
	return paths, err
}

func outline(ctx context.Context, root vfs.Dir) (paths []string, err error) {
	const all = 1 << 30
	o := search.Outline{Depth: vfs.MaxDepth, Entries: all, Bytes: all, Work: all, IgnoreFiles: true, NoHidden: true}
	branches, err := o.Of(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, b := range branches[1:] { // the first is root itself
		paths = append(paths, b.Name)
	}
	return paths, nil
}

// plantIgnores makes what plant has made in dir a repository with ignore files and ignored files. It returns
// the paths that are not ignored: the files that match, and everything.
func plantIgnores(dir string) (files, all []string, err error) {
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		return nil, nil, err
	}
	modules, err := filepath.Glob(filepath.Join(dir, "module*"))
	if err != nil {
		return nil, nil, err
	}
	texts := map[string]string{filepath.Join(dir, ".gitignore"): rootIgnores}
	for _, m := range modules {
		texts[filepath.Join(m, ".gitignore")] = moduleIgnores
		texts[filepath.Join(m, "debug.log")] = "" // ignored
	}
	for name, text := range texts {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return nil, nil, err
		}
	}
	err = filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		switch base := e.Name(); {
		case base == ".git", base == "package07", base == "part9":
			return filepath.SkipDir
		case base == ".gitignore", path.Ext(base) == ".log":
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		all = append(all, rel)
		if path.Ext(rel) == ".go" {
			files = append(files, rel)
		}
		return nil
	})
	return files, all, err
}
