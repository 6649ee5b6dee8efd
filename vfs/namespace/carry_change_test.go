package namespace_test

import (
	"maps"
	"testing"

	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/vfstest/check"
)

// TestMoveOfWhatChanges changes the source when everything has been copied, before it is
// removed. What changed or appeared stays, and the target is undone or whole.
func TestMoveOfWhatChanges(t *testing.T) {
	for name, c := range map[string]struct {
		op     faultfs.Op // of the source, at whose nth
		stage  faultfs.Stage
		nth    int
		change func(t *testing.T, a vfs.Dir)
		want   vfs.Code
		stays  string
	}{
		"a file changes before the look":  {faultfs.Version, faultfs.After, 1, func(t *testing.T, a vfs.Dir) { check.OK(t, check.Put(t.Context(), a, "d/e/empty", "changed")) }, vfs.Conflict, "d/e/empty"},
		"a file changes when it was read": {faultfs.Open, faultfs.Before, 2, func(t *testing.T, a vfs.Dir) { check.OK(t, check.Put(t.Context(), a, "d/e/empty", "changed")) }, vfs.Conflict, "d/e/empty"},
		"a file changes before the end":   {faultfs.Remove, faultfs.Before, 1, func(t *testing.T, a vfs.Dir) { check.OK(t, check.Put(t.Context(), a, "d/f", "changed")) }, vfs.Conflict, "d/f"},
		"a file appears before the end":   {faultfs.Remove, faultfs.Before, 1, func(t *testing.T, a vfs.Dir) { check.OK(t, check.Put(t.Context(), a, "d/e/late", "late")) }, vfs.NotEmpty, "d/e/late"},
		"a file appears before the look":  {faultfs.Target, faultfs.After, 1, func(t *testing.T, a vfs.Dir) { check.OK(t, check.Put(t.Context(), a, "d/late", "late")) }, vfs.Conflict, "d/late"},
		"a link becomes another": {faultfs.Remove, faultfs.Before, 1, func(t *testing.T, a vfs.Dir) {
			d := check.DirAt(t, a, "d")
			check.OK(t, d.Remove(t.Context(), "l", vfs.If{}))
			check.OK(t, vfs.Symlink(t.Context(), d, "l", "other"))
		}, vfs.Conflict, "d/l"},
		"a directory becomes another one":             {faultfs.Remove, faultfs.Before, 1, becomesFile("d", "hollow"), vfs.Conflict, "d/hollow"},
		"a link becomes a file when it is to go":      {faultfs.Remove, faultfs.Before, 2, becomesFile("d", "l"), vfs.Conflict, "d/l"},
		"a directory becomes a file when it is to go": {faultfs.Remove, faultfs.Before, 3, becomesFile("d", "hollow"), vfs.Conflict, "d/hollow"},
		"all of it becomes a file when it is to go": {faultfs.Remove, faultfs.Before, 8, func(t *testing.T, a vfs.Dir) {
			check.OK(t, a.Remove(t.Context(), "d", vfs.If{}))
			check.OK(t, check.Put(t.Context(), a, "d", "late"))
		}, vfs.Conflict, "d"},
	} {
		t.Run(name, func(t *testing.T) {
			w := trees(t, cargo, nil)
			before := below(nodes(t, w.a), "d")
			pause := w.pa.Pause(c.op, c.stage, c.nth)
			done := make(chan error)
			go func() { done <- w.move(t, "d", "got", vfs.If{}, vfs.If{}) }()
			<-pause.Reached()
			c.change(t, w.a)
			pause.Resume()
			check.Is(t, "move", <-done, c.want)
			nowA, nowB := nodes(t, w.a), below(nodes(t, w.b), "got")
			if _, there := nowA[c.stays]; !there {
				t.Errorf("%s is gone", c.stays)
			}
			if len(nowB) > 0 && !maps.Equal(nowB, before) {
				t.Errorf("the target is %v", nowB)
			}
			for path, what := range before {
				if nowA["d/"+path] != what && nowB[path] != what && len(nowB) > 0 {
					t.Errorf("%s is lost", path)
				}
			}
			if len(nowB) == 0 && len(below(nowA, "d")) < len(before) {
				t.Errorf("undone, and the source is %v", nowA)
			}
		})
	}
}

// becomesFile puts a file where the link, or the empty directory, name in dir was.
func becomesFile(dir, name string) func(t *testing.T, a vfs.Dir) {
	return func(t *testing.T, a vfs.Dir) {
		check.OK(t, check.DirAt(t, a, dir).Remove(t.Context(), name, vfs.If{}))
		check.OK(t, check.Put(t.Context(), a, vfs.Join(dir, name), "late"))
	}
}
