package overlay_test

import (
	"errors"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// splits decide for each path of a tree whether it is in the lower tree at first.
var splits = map[string]func(path string) bool{
	"lower": func(string) bool { return true },
	"upper": func(string) bool { return false },
	"split": func(path string) bool { return len(path)%2 == 0 },
}

// fill makes tree in d, where some of its directories may be already.
func fill(t testing.TB, d vfs.Dir, tree vfstest.Tree) {
	t.Helper()
	ctx := t.Context()
	for path, n := range tree.All() {
		in, name, release, err := vfs.WalkParent(ctx, d, path)
		if err == nil {
			switch {
			case n.Dir:
				if _, err = in.Mkdir(ctx, name); errors.Is(err, vfs.Exists) {
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
			t.Fatalf("filling, %s: %v", path, err)
		}
	}
}

func lowerOf(t testing.TB, tree vfstest.Tree) vfs.Dir {
	s := memory.New(memory.Limits{})
	vfstest.Fill(t, s.Root(), tree,
		vfstest.Symlink(s.Root()),
		vfstest.SetExec(s.Root()))
	return s.Root()
}

func memoryUpper(testing.TB) vfs.Dir { return memory.New(memory.Limits{}).Root() }

func physicalUpper(t testing.TB) vfs.Dir {
	s, err := physical.OpenAmbient(t.TempDir(), physical.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.Root()
}

func laid(t testing.TB, lower, upper vfs.Dir) *overlay.Overlay {
	t.Helper()
	o, err := overlay.New(t.Context(), lower, upper, overlay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSuite(t *testing.T) {
	for kind, upper := range map[string]func(testing.TB) vfs.Dir{"memory": memoryUpper, "physical": physicalUpper} {
		for where, isLower := range splits {
			t.Run(kind+"/"+where, func(t *testing.T) {
				t.Parallel()
				vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
					below, above := vfstest.Tree{}, vfstest.Tree{}
					for path, n := range tree {
						if isLower(path) {
							below[path] = n
						} else {
							above[path] = n
						}
					}
					o := laid(t, lowerOf(t, below), upper(t))
					fill(t, o.Root(), above)
					return o.Root()
				}})
			})
		}
	}
}
