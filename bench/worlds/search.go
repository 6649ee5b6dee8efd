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

// The pattern, and the same for fd.
const (
	searched   = "**/*.go"
	searchedFd = "*.go"
)

// searching measures finding files by name in a tree of which a quarter match.
func searching(o Options, s *sizes, dir string) world {
	fd := findFd()
	var want []string
	var locator string
	var served func() error
	found := func(paths []string) func() error {
		return func() error { return same(paths, want) }
	}
	byFd := &contender{name: "fd -uu -g", missing: fd.missing, run: func(ctx context.Context) (func() error, error) {
		out, err := fd.run(ctx, dir, "-uu", "-g", searchedFd)
		return func() error {
			var paths []string
			for line := range bytes.Lines(out) {
				paths = append(paths, strings.TrimPrefix(strings.TrimSpace(string(line)), "./"))
			}
			return same(paths, want)
		}, err
	}}
	inGo := func(guards ...membrane.Guard) *contender {
		return &contender{name: "search.Search", run: func(ctx context.Context) (func() error, error) {
			paths, err := searchDir(ctx, dir, guards...)
			return found(paths), err
		}}
	}
	overWire := &contender{name: "client.Dir.Glob", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var paths []string
		for e, err := range conn.Dir(ctx).SubDir(o.Served).Glob(ctx, searched) {
			if err != nil {
				return nil, err
			}
			paths = append(paths, e.Name)
		}
		return found(paths), nil
	}}
	name := fmt.Sprintf("glob %s over %s files, ", searched, count(s.searched()))
	return world{
		rows: []row{
			{name: name + "in Go", floor: byFd, capd: inGo(), target: 1.0},
			{name: name + "in Go, secrets denied", floor: byFd, capd: inGo(deny.Must(deny.Secrets...).Guard())},
			{name: name + "over the wire", floor: byFd, capd: overWire, target: 1.3},
		},
		setup: func(ctx context.Context) (err error) {
			if want, err = plant(dir, s.searched()); err != nil {
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

// searchDir opens dir and finds files in it, as a host does.
func searchDir(ctx context.Context, dir string, guards ...membrane.Guard) (paths []string, err error) {
	store, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	root := membrane.Guarded(store.ReadOnlyRoot(), nil, guards...)
	defer root.Close()
	pattern, err := search.Compile(searched)
	if err != nil {
		return nil, err
	}
	err = search.Search{Pattern: pattern, Visit: func(path string, _ vfs.Kind, hit bool, _ int) bool {
		if hit {
			paths = append(paths, path)
		}
		return true
	}}.In(ctx, root)
	return paths, err
}

// plant makes n empty files, 40 per directory and three directories deep, and returns the paths of those that
// match.
func plant(dir string, n int) (matching []string, err error) {
	const each = 40
	kinds := []string{"go", "md", "ts", "json"}
	for i := range n {
		d := i / each
		sub := fmt.Sprintf("module%02d/package%02d/part%d", d/100, d/10%10, d%10)
		if i%each == 0 {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				return nil, err
			}
		}
		name := path.Join(sub, fmt.Sprintf("file%06d.%s", i, kinds[i%len(kinds)]))
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
		if i%len(kinds) == 0 {
			matching = append(matching, name)
		}
	}
	return matching, nil
}
