// Package vfstest tests every implementation of package vfs against one contract:
// backends, guards, mounts and the client of the wire. The test of a new implementation
// is a call of [Run] with a function that makes a store.
package vfstest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
)

// Tree is the initial content of a store: slash-separated paths and their nodes.
// Directories on the way to a node need no entry.
type Tree map[string]Node

// Node is a directory if Dir is set, a link if Link is not empty, and a file
// otherwise.
type Node struct {
	Data string // a file's content
	Link string // a link's target
	Exec bool   // a file that its owner may execute
	Dir  bool
}

// Store says how to make the store to test, and what it cannot do. Other limits show in
// the interfaces that it lacks, and the suite finds them: a store whose Dirs are not
// vfs.Symlinker makes no links, and one whose Dirs are not vfs.Installer may have no
// executable bits.
type Store struct {
	// New makes a new store that holds tree, and returns its root. It uses t.Cleanup to
	// remove the store. Stores share nothing.
	New func(t testing.TB, tree Tree) vfs.Dir

	Immutable bool // every change answers readOnly
	NoLinks   bool // New cannot make links
	Remote    bool // a context's vfs.OnCommit does not reach the store, nor do calls meant for hosts
	Approved  bool // a change is approved of what is there before it: when that has changed, it answers conflict
}

// All yields every node, directories on the way included, parents first.
func (tree Tree) All() iter.Seq2[string, Node] {
	whole := maps.Clone(tree)
	for path := range tree {
		for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path[:i], '/') {
			whole[path[:i]] = Node{Dir: true}
		}
	}
	return func(yield func(string, Node) bool) {
		for _, path := range slices.Sorted(maps.Keys(whole)) {
			if !yield(path, whole[path]) {
				return
			}
		}
	}
}

// Fill makes tree in d through d's own methods. No method of a Dir makes a link or sets
// an executable bit, so the store supplies link and exec. They get slash-separated
// paths below d.
func Fill(t testing.TB, d vfs.Dir, tree Tree, link func(path, target string) error, exec func(path string) error) {
	t.Helper()
	ctx := context.Background()
	dirs := map[string]vfs.Dir{"": d}
	must := func(path string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("filling the store, %s: %v", path, err)
		}
	}
	for path, n := range tree.All() {
		parent, name := "", path
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			parent, name = path[:i], path[i+1:]
		}
		switch {
		case n.Dir:
			made, err := dirs[parent].Mkdir(ctx, name)
			must(path, err)
			dirs[path] = made
		case n.Link != "":
			must(path, link(path, n.Link))
		default:
			_, err := dirs[parent].Replace(ctx, name, strings.NewReader(n.Data), vfs.If{})
			must(path, err)
			if n.Exec {
				must(path, exec(path))
			}
		}
	}
	for path, made := range dirs {
		if path != "" {
			must(path, made.Close())
		}
	}
}

// rule is one part of the contract.
type rule struct {
	name  string
	needs need
	test  func(w *world)
}

// need says which stores a rule applies to.
type need uint8

const (
	anyStore  need = iota
	writable       // stores that are not Immutable
	local          // stores that are neither Immutable nor Remote
	immutable      // only stores that are
)

// Run tests the whole contract on stores that s makes.
func Run(t *testing.T, s Store) {
	can := s.abilities(t)
	for _, r := range slices.Concat(
		readRules, nameRules, makeRules, replaceRules, writeRules, attributeRules, removeRules, renameRules, copyRules,
		identityRules, closeRules, conditionRules, raceRules, commitRules, overtakeRules, immutableRules, abilityRules, readyRules, alikeRules, lookPathRules, visitRules, changesRules,
	) {
		switch r.needs {
		case writable:
			if s.Immutable {
				continue
			}
		case local:
			if s.Immutable || s.Remote {
				continue
			}
		case immutable:
			if !s.Immutable {
				continue
			}
		}
		t.Run(r.name, func(t *testing.T) { r.test(&world{T: t, s: s, can: can, ctx: t.Context()}) })
	}
}
