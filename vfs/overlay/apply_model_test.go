package overlay_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/overlay"
)

var times = regexp.MustCompile(`ModifiedMs:\d+`)

// shape is a picture without times.
func shape(t testing.TB, d vfs.Dir) map[string]string {
	t.Helper()
	all := picture(t, d)
	for path, what := range all {
		all[path] = times.ReplaceAllString(what, "")
	}
	return all
}

func same(t testing.TB, what string, want, got map[string]string) {
	t.Helper()
	if d := differ(want, got); d != "" {
		t.Fatalf("%s: %s", what, d)
	}
}

func diffOf(t testing.TB, o *overlay.Overlay) []diff.Change {
	t.Helper()
	changes, err := o.Diff(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// some chooses among the paths of changes.
func (w *world) some(changes []diff.Change) []string {
	paths := []string{}
	for _, c := range changes {
		if w.random.IntN(2) == 0 {
			paths = append(paths, c.Path)
		}
		if c.From != "" && w.random.IntN(2) == 0 {
			paths = append(paths, c.From)
		}
	}
	return paths
}

// TestApplyModel applies, undoes and reverts the result of random operations, some of
// them in the lower tree.
func TestApplyModel(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			journal := memory.New(memory.Limits{}).Root()
			var log []string
			earlier := "" // an apply that may be undone later
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(log, "\n"))
				}
			}()
			ctx := t.Context()
			for range 8 {
				for range w.random.IntN(12) {
					what := w.next()
					_, want := what.do(ctx, w.plain.Root(), w.plain)
					_, err := what.do(ctx, w.o.Root(), nil)
					log = append(log, fmt.Sprint(what.what, " ", vfs.CodeOf(err)))
					if vfs.CodeOf(want) != vfs.CodeOf(err) {
						log = append(log, fmt.Sprint("  not as in a plain store: ", want))
					}
				}
				if seed%3 == 0 {
					what := w.next()
					_, err := what.do(ctx, w.lower.Root(), w.lower)
					log = append(log, fmt.Sprint("in the lower tree: ", what.what, " ", vfs.CodeOf(err)))
				}
				if seed%2 == 0 {
					w.reopen()
				}
				lower, view, changes := shape(t, w.lower.Root()), shape(t, w.o.Root()), diffOf(t, w.o)
				log = append(log, fmt.Sprint("changes: ", changes))
				if earlier != "" && w.random.IntN(2) == 0 {
					err := w.o.Undo(ctx, journal, earlier)
					log = append(log, fmt.Sprintf("undo of an earlier apply: %v", err))
					outcomes["undone later "+string(vfs.CodeOf(err))]++
					if err != nil && vfs.CodeOf(err) != vfs.Conflict {
						t.Fatalf("Undo: %v", err)
					}
					if err != nil {
						same(t, "the lower tree after an undo that failed", lower, shape(t, w.lower.Root()))
					}
					same(t, "the overlay after an undo of an earlier apply", view, shape(t, w.o.Root()))
					counted(t, w.o)
					earlier, lower, changes = "", shape(t, w.lower.Root()), diffOf(t, w.o)
				}
				switch w.random.IntN(4) {
				case 0, 1:
					var paths []string
					if w.random.IntN(2) == 0 {
						paths = w.some(changes)
					}
					log = append(log, fmt.Sprintf("apply %q", paths))
					done, err := w.o.Apply(ctx, overlay.ApplyOptions{Paths: paths, Journal: journal})
					log = append(log, fmt.Sprint(err))
					outcomes["apply "+string(vfs.CodeOf(err))]++
					if err != nil {
						if c := vfs.CodeOf(err); c != vfs.Conflict && c != vfs.Invalid {
							t.Fatalf("Apply: %v", err)
						}
						if _, ok := errors.AsType[*diff.Conflicts](err); ok && seed%3 != 0 {
							t.Fatalf("Apply: %v", err)
						}
						same(t, "the lower tree after an apply that failed", lower, shape(t, w.lower.Root()))
						same(t, "the overlay after an apply that failed", view, shape(t, w.o.Root()))
						counted(t, w.o)
						continue
					}
					after := shape(t, w.lower.Root())
					if seed%3 != 0 { // only the overlay has changed
						same(t, "the overlay after an apply", view, shape(t, w.o.Root()))
						counted(t, w.o)
					}
					if paths == nil {
						same(t, "the lower tree after an apply", shape(t, w.o.Root()), after)
						if left := diffOf(t, w.o); len(left) > 0 {
							t.Fatalf("after an apply there is %v", left)
						}
					}
					w.reopen()
					if seed%3 != 0 {
						same(t, "the overlay, opened after an apply", view, shape(t, w.o.Root()))
						counted(t, w.o)
					}
					earlier = done.ID
					if done.ID != "" && w.random.IntN(2) == 0 {
						earlier = ""
						view := shape(t, w.o.Root())
						if err := w.o.Undo(ctx, journal, done.ID); err != nil {
							t.Fatalf("Undo: %v", err)
						}
						log = append(log, "undo")
						same(t, "the lower tree after an undo", lower, shape(t, w.lower.Root()))
						same(t, "the overlay after an undo", view, shape(t, w.o.Root()))
						counted(t, w.o)
						if seed%3 != 0 && paths == nil {
							outcomes["undone"]++
							if len(diffOf(t, w.o)) == 0 {
								t.Fatal("after an undo nothing is pending")
							}
						}
					}
				case 2:
					var paths []string
					if w.random.IntN(2) == 0 {
						paths = w.some(changes)
					}
					log = append(log, fmt.Sprintf("revert %q", paths))
					err := w.o.Revert(ctx, paths)
					log = append(log, fmt.Sprint(err))
					outcomes["revert "+string(vfs.CodeOf(err))]++
					same(t, "the lower tree after a revert", lower, shape(t, w.lower.Root()))
					if err != nil {
						if vfs.CodeOf(err) != vfs.Invalid {
							t.Fatalf("Revert: %v", err)
						}
						same(t, "the overlay after a revert that failed", view, shape(t, w.o.Root()))
						counted(t, w.o)
						continue
					}
					if paths == nil {
						same(t, "the overlay after a revert", lower, shape(t, w.o.Root()))
						counted(t, w.o)
					}
					view = shape(t, w.o.Root())
					for _, c := range diffOf(t, w.o) {
						for _, path := range paths {
							if c.Path == path {
								t.Fatalf("after a revert there is still %+v", c)
							}
						}
					}
					w.reopen()
					same(t, "the overlay, opened after a revert", view, shape(t, w.o.Root()))
					counted(t, w.o)
				}
			}
			if seed%3 != 0 {
				if _, err := w.o.Apply(ctx, overlay.ApplyOptions{Journal: journal}); err != nil {
					t.Fatalf("the last apply: %v", err)
				}
				same(t, "the lower tree at the end", shape(t, w.o.Root()), shape(t, w.lower.Root()))
			}
		})
	}
	t.Log(outcomes)
}
