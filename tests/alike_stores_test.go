package tests

import (
	"errors"
	"os"
	"strings"
	"testing"

	"capd/backend/cas"
	"capd/backend/git"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
	"capd/vfs/namespace"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// placed is a tree that a host serves, and the guest's place in it.
type placed struct {
	dir  vfs.Dir
	path string
}

// alikeStore makes a new store that contains a tree.
type alikeStore struct {
	make      func(t testing.TB, tree vfstest.Tree) placed
	immutable bool // every change answers readOnly
	composed  bool // it consists of several stores; mount points cannot be moved or removed
}

// plain are the single stores, by kind.
var plain = map[string]func(testing.TB, vfstest.Tree) vfs.Dir{
	"memory":            inMemoryTree,
	"physical":          onDiskTree(physical.Options{}),
	"physical portable": onDiskTree(physical.Options{Portable: true}),
	"git":               gitTree(git.Options{}),
	"git writable":      gitTree(git.Options{Writable: true}),
	"cas":               casTree,
}

func isImmutable(kind string) bool { return kind == "git" || kind == "cas" }

// alikeStores are all the ways in which a guest may get a tree.
var alikeStores = func() map[string]alikeStore {
	all := map[string]alikeStore{}
	add := func(name string, immutable bool, make func(testing.TB, vfstest.Tree) vfs.Dir) {
		all[name] = alikeStore{make: func(t testing.TB, tree vfstest.Tree) placed { return placed{dir: make(t, tree)} }, immutable: immutable}
		all["mounted "+name] = alikeStore{make: func(t testing.TB, tree vfstest.Tree) placed {
			return placed{mountAll(t, map[string]vfs.Dir{"": inMemoryTree(t, vfstest.Tree{"beside": {}}), "a/b/tree": make(t, tree)}), "a/b/tree"}
		}, immutable: immutable}
	}
	for kind, make := range plain {
		add(kind, isImmutable(kind), make)
	}
	for _, lower := range []string{"memory", "physical", "git", "cas"} {
		upper := "memory"
		if lower == "physical" || lower == "git" {
			upper = "physical"
		}
		add("overlay on "+lower, false, func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return laidOver(t, plain[lower](t, tree), plain[upper](t, nil))
		})
		all["overlay half on "+lower] = alikeStore{make: func(t testing.TB, tree vfstest.Tree) placed {
			below, above := vfstest.Tree{}, vfstest.Tree{}
			for path, n := range tree {
				if len(path)%2 == 0 {
					below[path] = n
				} else {
					above[path] = n
				}
			}
			d := laidOver(t, plain[lower](t, below), plain[upper](t, nil))
			plant(t, d, above)
			return placed{dir: d}
		}}
	}
	all["composed of physical, git and cas"] = alikeStore{make: func(t testing.TB, tree vfstest.Tree) placed {
		return placed{dir: composedTree(t, tree)}
	}, composed: true}
	return all
}()

// composedTree returns tree with some of its directories on other stores.
func composedTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	mounts := map[string]func(testing.TB, vfstest.Tree) vfs.Dir{
		"": plain["memory"], "d": plain["physical"], "d/e": plain["git writable"], "日本語": plain["physical portable"], "chain": plain["cas"], "only": plain["git"],
		"many": func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return laidOver(t, plain["git"](t, tree), plain["memory"](t, nil))
		},
	}
	parts := map[string]vfstest.Tree{}
	for path, n := range tree {
		at := path
		for at != "" && (mounts[at] == nil || at == path) {
			at = at[:max(0, strings.LastIndexByte(at, '/'))]
		}
		if parts[at] == nil {
			parts[at] = vfstest.Tree{}
		}
		parts[at][strings.TrimPrefix(strings.TrimPrefix(path, at), "/")] = n
	}
	trees := map[string]vfs.Dir{}
	for at, make := range mounts {
		trees[at] = make(t, parts[at])
	}
	return mountAll(t, trees)
}

// plant makes tree in d. Some of its directories may exist already.
func plant(t testing.TB, d vfs.Dir, tree vfstest.Tree) {
	t.Helper()
	ctx := t.Context()
	for path, n := range tree.All() {
		in, name, release, err := vfs.WalkParent(ctx, d, path)
		if err == nil {
			switch {
			case n.Dir:
				var made vfs.Dir
				if made, err = in.Mkdir(ctx, name); err == nil {
					err = made.Close()
				} else if errors.Is(err, vfs.Exists) {
					err = nil
				}
			case n.Link != "":
				err = vfs.Symlink(ctx, in, name, n.Link)
			default:
				_, err = vfs.Install(ctx, in, name, strings.NewReader(n.Data), n.Exec, vfs.If{})
			}
			release()
		}
		if err != nil {
			t.Fatalf("planting %s: %v", path, err)
		}
	}
}

func inMemoryTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	d := memory.New(memory.Limits{}).Root()
	plant(t, d, tree)
	return d
}

// scratchDir makes a directory in memory, which is removed with the test.
func scratchDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch.Memory(), "capd")
	ok(t, err)
	t.Cleanup(func() { ok(t, os.RemoveAll(dir)) })
	return dir
}

func onDiskTree(o physical.Options) func(testing.TB, vfstest.Tree) vfs.Dir {
	return func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		t.Helper()
		s, err := physical.OpenAmbient(scratchDir(t), o)
		ok(t, err)
		t.Cleanup(func() { ok(t, s.Close()) })
		d := s.Root()
		plant(t, d, tree)
		return d
	}
}

func casTree(t testing.TB, tree vfstest.Tree) vfs.Dir {
	t.Helper()
	s, err := cas.OpenAmbient(scratchDir(t), cas.Options{})
	ok(t, err)
	root, err := cas.Put(t.Context(), s, inMemoryTree(t, tree), cas.PutOptions{Pin: "tree"})
	ok(t, err)
	d, err := cas.Open(t.Context(), s, root)
	ok(t, err)
	t.Cleanup(func() { d.Close() })
	return d
}

func laidOver(t testing.TB, lower, upper vfs.Dir) vfs.Dir {
	t.Helper()
	o, err := overlay.New(t.Context(), lower, upper, overlay.Options{})
	ok(t, err)
	t.Cleanup(func() { ok(t, o.Close()) })
	return o.Root()
}

// mountAll mounts trees together.
func mountAll(t testing.TB, trees map[string]vfs.Dir) vfs.Dir {
	t.Helper()
	n := namespace.New()
	for path, tree := range trees {
		ok(t, n.Mount(path, tree, namespace.Options{}))
	}
	t.Cleanup(func() { ok(t, n.Close()) })
	return n.Root()
}
