package tests

import (
	"testing"

	"capd/backend/git"
	"capd/backend/physical"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// worldStores are the stores that are held to the contract as a part of a whole world.
// Every store by itself, and every upper and lower tree of an overlay, is held to it in
// its own package; here is each kind once, and the overlay over a store that can change
// and over one that cannot.
var worldStores = map[string]struct {
	make      func(testing.TB, vfstest.Tree) vfs.Dir
	immutable bool
}{
	"memory":       {make: inMemoryTree},
	"git writable": {make: gitTree(git.Options{Writable: true})},
	"cas":          {make: casTree, immutable: true},
	"overlay on physical": {make: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		disk := onDiskTree(physical.Options{})
		return laidOver(t, disk(t, tree), disk(t, nil))
	}},
	"overlay on git": {make: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		return laidOver(t, gitTree(git.Options{})(t, tree), inMemoryTree(t, nil))
	}},
}

// inWorld mounts a tree at in/here, in a namespace of every other kind of store: above
// it, beside it, and below directories beside it. The suite's own root cannot have
// mounts in it, since it lists what it made and nothing else.
func inWorld(t testing.TB, tree vfs.Dir) vfs.Dir {
	t.Helper()
	beside := vfstest.Tree{"f": {Data: "beside"}, "d/g": {Data: "beside"}}
	return mountAll(t, map[string]vfs.Dir{
		"":                 inMemoryTree(t, vfstest.Tree{"in/here/hidden": {Data: "hidden"}, "in/f": {Data: "above"}}),
		"in/here":          tree,
		"in/disk":          onDiskTree(physical.Options{})(t, beside),
		"in/repository":    gitTree(git.Options{})(t, beside),
		"in/repository/rw": gitTree(git.Options{Writable: true})(t, beside),
		"blobs":            casTree(t, beside),
		"in/work":          laidOver(t, casTree(t, beside), inMemoryTree(t, nil)),
	})
}

// TestWorldsConform holds a store that is one part of a world to the contract of every
// store: over the wire, where a guest goes to it from the world's root or has it
// granted, and in this process.
func TestWorldsConform(t *testing.T) {
	t.Parallel()
	for name, s := range worldStores {
		for how, reach := range map[string]vfstest.Store{
			"wire": {Remote: true, NoLinks: true, // a link that leads out is not shown to a guest
				New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
					h := scene.Serve(t, inWorld(t, s.make(t, tree)), scene.Options{Record: true})
					return guestAt(t, h, "in").SubDir("here")
				}},
			"process": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				d, err := vfs.WalkDir(t.Context(), inWorld(t, s.make(t, tree)), "in/here")
				ok(t, err)
				return d
			}},
		} {
			if !thorough && how == "process" {
				continue // vfs's own tests hold trees within trees to it
			}
			reach.Immutable = s.immutable
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				vfstest.Run(t, reach)
			})
		}
	}
}
