package namespace_test

import (
	"reflect"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// A link that leads above its tree leads to another tree, or outside.
func TestLinkOutOfItsTree(t *testing.T) {
	project, tmp := memory.New(memory.Limits{}), memory.New(memory.Limits{})
	for name, target := range map[string]string{
		"across": "../tmp/there", "out": "../etc/passwd", "above": "../../tmp/there", "dangling": "missing", "gone": "../tmp/missing",
	} {
		check.OK(t, vfstest.Symlink(project.Root())(name, target))
	}
	_, err := tmp.Root().Create(t.Context(), "there")
	check.OK(t, err)
	guarded := membrane.Guarded(check.Compose(t, map[string]vfs.Dir{"project": membrane.Guarded(project.Root(), nil), "tmp": tmp.Root()}).Root(), nil)
	for name, want := range map[string]vfs.Code{
		"across": "", "out": vfs.Outside, "above": vfs.Outside, "dangling": vfs.NotFound, "gone": vfs.NotFound,
	} {
		n, err := vfs.Walk(t.Context(), guarded, "project/"+name)
		if got, want := vfs.CodeOf(err), want; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", name, got, want)
		}
		if err == nil {
			check.OK(t, n.Close())
		}
	}
	_, err = vfs.Walk(t.Context(), guarded, "etc/passwd")
	if got, want := vfs.CodeOf(err), vfs.NotFound; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}
