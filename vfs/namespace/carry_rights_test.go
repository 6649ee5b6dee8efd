package namespace_test

import (
	"fmt"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// TestMoveNeedsNoOtherRights: a move from tree to tree needs the rights of any move, although
// it lists, copies and removes. Between two grants it goes through the views of both, and only
// a file can go.
func TestMoveNeedsNoOtherRights(t *testing.T) {
	const from, to = membrane.Move | membrane.Read, membrane.Move | membrane.Write
	move := func(t *testing.T, path string, grants int, a, b membrane.Rights, want vfs.Code) {
		w := trees(t, vfstest.Tree{"d/f": {Data: "a file"}}, nil)
		root := [2]vfs.Dir{w.root, w.root}
		if grants == 2 {
			root[1] = membrane.Guarded(w.ns.Root(), nil)
		}
		src, err := membrane.Narrow(check.DirAt(t, root[0], "a"), a)
		check.OK(t, err)
		dst, err := membrane.Narrow(check.DirAt(t, root[1], "b"), b)
		check.OK(t, err)
		what := fmt.Sprintf("%s from %v to %v", path, a, b)
		parent, name, release, err := vfs.WalkParent(t.Context(), src.(vfs.Dir), path)
		check.OK(t, err)
		defer release()
		check.Is(t, what, parent.Rename(t.Context(), name, dst.(vfs.Dir), "d", vfs.If{}, vfs.If{}), want)
		if here, there := len(nodes(t, w.a)), len(nodes(t, w.b)); want != "" && (here != 2 || there != 0) {
			t.Errorf("%s: %d nodes are left and %d arrived", what, here, there)
		}
	}
	for grants, path := range map[int]string{1: "d", 2: "d/f"} {
		t.Run(fmt.Sprint(grants, " grants"), func(t *testing.T) {
			move(t, path, grants, from, to, "")
			for r := membrane.Read; r != 0; r <<= 1 {
				move(t, path, grants, membrane.AllRights&^r, membrane.AllRights, lack(r&from))
				move(t, path, grants, membrane.AllRights, membrane.AllRights&^r, lack(r&to))
			}
		})
	}
}

func lack(r membrane.Rights) vfs.Code {
	switch r {
	case 0:
		return ""
	case membrane.Read:
		return vfs.Denied
	}
	return vfs.ReadOnly
}
