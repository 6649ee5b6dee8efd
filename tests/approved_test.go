package tests

import (
	"context"
	"strings"
	"sync"
	"testing"

	"capd/backend/physical"
	"capd/client"
	"capd/operator"
	"capd/policy"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// A tree in which every change needs an approval, and gets it, is held to the contract of every store.
func TestApprovedConforms(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(testing.TB, vfstest.Tree) vfs.Dir{"memory": inMemoryTree, "physical": onDiskTree(physical.Options{})} {
		if !thorough && name == "memory" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vfstest.Run(t, vfstest.Store{Remote: true, NoLinks: true, Approved: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
				asked := membrane.Guarded(make(t, tree), nil, deny.Must("**").Ask("all"))
				return scene.Serve(t, asked, scene.Options{Record: true, Approve: operator.Always}).Guest(t)
			}})
		})
	}
}

// TestApprovedAtOnce: what is approved for now is made as if nothing had to be approved: several callers who state no condition
// change one file at once, and none of them hears of a conflict.
func TestApprovedAtOnce(t *testing.T) {
	t.Parallel()
	callers, each := 8, 3
	if thorough {
		each = 20
	}
	var book policy.Book
	ok(t, book.Set(policy.Rules{Rules: []operator.Rule{{Effect: operator.RuleAsk, Operations: []string{"write"}, Patterns: []string{"**"}, Source: "test"}}}, nil))
	for name, served := range map[string]func(*testing.T, vfs.Dir) *scene.Host{
		"a mount asks": func(t *testing.T, d vfs.Dir) *scene.Host {
			return scene.Serve(t, membrane.Guarded(d, nil, deny.Must("**").Ask("all")), scene.Options{Record: true, Approve: operator.Always})
		},
		"a rule asks": func(t *testing.T, d vfs.Dir) *scene.Host {
			return scene.Serve(t, d, scene.Options{Record: true, Approve: operator.Always, Policy: &book})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := served(t, onDiskTree(physical.Options{})(t, vfstest.Tree{"log": {Data: "\n"}, "f": {Data: "old"}})).Guest(t)
			changes := map[string]func(context.Context) error{
				"append": func(ctx context.Context) error {
					f := d.OpenFile("log")
					defer f.Close()
					_, err := f.Append(ctx, []byte("line\n"), vfs.If{})
					return err
				},
				"write": func(ctx context.Context) error {
					f := d.OpenFile("log")
					defer f.Close()
					_, err := f.WriteAt(ctx, []byte("\n"), 0, vfs.If{})
					return err
				},
				"put": func(ctx context.Context) error {
					_, err := d.Put(ctx, "f", strings.NewReader("new"), vfs.If{})
					return err
				},
				"replace": func(ctx context.Context) error {
					f := d.OpenFile("f")
					defer f.Close()
					_, err := f.Replace(ctx, strings.NewReader("other"), vfs.If{})
					return err
				},
			}
			for name, change := range changes {
				if err := change(t.Context()); err != nil { // somebody says always
					t.Fatalf("%s: %v", name, err)
				}
			}
			var all sync.WaitGroup
			for range callers {
				for name, change := range changes {
					all.Go(func() {
						for range each {
							if err := change(t.Context()); err != nil {
								t.Errorf("%s: %v", name, err)
							}
						}
					})
				}
			}
			all.Wait()
			if text := textOf(t, d, "log"); text != "\n"+strings.Repeat("line\n", callers*each+1) {
				t.Errorf("the log has %d lines", strings.Count(text, "line\n"))
			}
		})
	}
}

func textOf(t *testing.T, d *client.Dir, path string) string {
	t.Helper()
	f := d.OpenFile(path)
	defer f.Close()
	text, _, err := f.ReadText(t.Context())
	ok(t, err)
	return text
}
