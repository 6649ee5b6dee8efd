package client_test

import (
	"context"
	"testing"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// TestSuite runs the conformance suite against the whole stack, over a socket and over
// TLS.
func TestSuite(t *testing.T) {
	ctx := context.Background()
	for name, s := range map[string]vfstest.Store{
		"memory":   {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return guest(t, scene.InMemory(t, tree)) }},
		"physical": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return guest(t, onDisk(t, tree)) }},
		"mounted": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return guest(t, compose(t, map[string]vfs.Dir{"m/disk": onDisk(t, tree), "m/memory": scene.InMemory(t, nil)})).SubDir("m/disk")
		}},
		"guarded": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return guest(t, membrane.Guarded(scene.InMemory(t, tree), nil, deny.Must("**/.ssh/**", "**/*.pem").Guard()))
		}},
		"revocable": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			d, r := guest(t, scene.InMemory(t, tree)).Revocable()
			t.Cleanup(func() { r.Close() })
			return d
		}},
		"shared": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			below := vfstest.Tree{"part": {Dir: true}, "other": {}}
			for path, n := range tree {
				below["part/"+path] = n
			}
			loc, _ := grant(t, serve(t, scene.InMemory(t, below)), "", false)
			c := dial(t, loc)
			loc, _, err := c.Share(ctx, c.Dir(ctx).SubDir("part"))
			ok(t, err)
			return dial(t, loc).Dir(ctx)
		}},
		"memory over TLS":   {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return guestTLS(t, scene.InMemory(t, tree)) }},
		"physical over TLS": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return guestTLS(t, onDisk(t, tree)) }},
		"readOnly": {New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			return guest(t, scene.InMemory(t, tree)).ReadOnly()
		}, Immutable: true},
	} {
		s.Remote = true
		s.NoLinks = true // one leads out of the tree, which a guest is not shown: see TestLinks
		t.Run(name, func(t *testing.T) { vfstest.Run(t, s) })
	}
}
