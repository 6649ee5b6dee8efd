package namespace_test

import (
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

func mounted(t testing.TB, at string, d vfs.Dir) vfs.Dir {
	t.Helper()
	ns := check.Compose(t, map[string]vfs.Dir{at: d, "elsewhere/else": memory.New(memory.Limits{}).Root()})
	t.Cleanup(func() { check.OK(t, ns.Close()) })
	return check.DirAt(t, ns.Root(), at)
}

// TestSuite runs the conformance suite against membranes and mounts.
func TestSuite(t *testing.T) {
	for name, wrap := range map[string]func(testing.TB, vfs.Dir) vfs.Dir{
		"guarded":   func(_ testing.TB, d vfs.Dir) vfs.Dir { return membrane.Guarded(d, nil) },
		"policies":  func(_ testing.TB, d vfs.Dir) vfs.Dir { return membrane.Guarded(d, nil, check.Policies()...) },
		"revocable": func(t testing.TB, d vfs.Dir) vfs.Dir { d, _ = check.Controlled(t, membrane.Guarded(d, nil)); return d },
		"mount":     func(t testing.TB, d vfs.Dir) vfs.Dir { return mounted(t, "m/n", d) },
		"everything": func(t testing.TB, d vfs.Dir) vfs.Dir {
			d = membrane.Guarded(d, nil, check.Policies()...)
			ns := check.Compose(t, map[string]vfs.Dir{"m/n": d})
			return check.DirAt(t, membrane.Guarded(ns.Root(), nil, check.Policies()...), "m/n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				_, d := check.Store(t, tree)
				return wrap(t, d)
			}})
		})
	}
	t.Run("read only", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			_, d := check.Store(t, tree)
			d, err := membrane.ReadOnlyDir(membrane.Guarded(d, nil))
			check.OK(t, err)
			return d
		}})
	})
	t.Run("root", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			_, d := check.Store(t, tree)
			return check.Compose(t, map[string]vfs.Dir{"": d}).Root()
		}})
	})
}
