package vfs_test

import (
	"context"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/vfstest"
)

// policies are guards that concern nothing in the suite's trees.
func policies() []vfs.Guard {
	return []vfs.Guard{
		deny.Must("**/.ssh/**", "**/*.pem").Guard(),
		deny.Must("**/.git/hooks/**").Ask(nil),
		{Meter: newMeter(meter.Limits{meter.StoredBytes: 1 << 40, meter.StoredNodes: 1 << 20, meter.Nodes: 1 << 20})},
		{Around: func(ctx context.Context, _ vfs.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			return do(ctx)
		}},
	}
}

func mounted(t testing.TB, at string, d vfs.Dir) vfs.Dir {
	t.Helper()
	ns := compose(t, map[string]vfs.Dir{at: d, "elsewhere/else": memory.New(memory.Limits{}).Root()})
	t.Cleanup(func() { ok(t, ns.Close()) })
	return dirAt(t, ns.Root(), at)
}

// TestSuite holds membranes and mounts to the contract that every store keeps.
func TestSuite(t *testing.T) {
	for name, wrap := range map[string]func(testing.TB, vfs.Dir) vfs.Dir{
		"guarded":   func(_ testing.TB, d vfs.Dir) vfs.Dir { return vfs.Guarded(d, nil) },
		"policies":  func(_ testing.TB, d vfs.Dir) vfs.Dir { return vfs.Guarded(d, nil, policies()...) },
		"revocable": func(t testing.TB, d vfs.Dir) vfs.Dir { d, _ = controlled(t, vfs.Guarded(d, nil)); return d },
		"mount":     func(t testing.TB, d vfs.Dir) vfs.Dir { return mounted(t, "m/n", d) },
		"everything": func(t testing.TB, d vfs.Dir) vfs.Dir {
			d = vfs.Guarded(d, nil, policies()...)
			ns := compose(t, map[string]vfs.Dir{"m/n": d})
			return dirAt(t, vfs.Guarded(ns.Root(), nil, policies()...), "m/n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				_, d := store(t, tree)
				return wrap(t, d)
			}})
		})
	}
	t.Run("read only", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Immutable: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			_, d := store(t, tree)
			d, err := vfs.ReadOnlyDir(vfs.Guarded(d, nil))
			ok(t, err)
			return d
		}})
	})
	t.Run("root", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
			_, d := store(t, tree)
			return compose(t, map[string]vfs.Dir{"": d}).Root()
		}})
	})
}
