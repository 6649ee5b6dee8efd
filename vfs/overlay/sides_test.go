package overlay_test

import (
	"testing"

	"capd/vfs"
	"capd/vfs/overlay"
)

// TestSides lets one side win where both have changed.
func TestSides(t *testing.T) {
	for _, test := range []struct {
		name         string
		above, below func(b *bench)
		ours, theirs []string
		code         vfs.Code
		want         map[string]string // of the lower tree; "" for nothing there
	}{
		{"no side", func(b *bench) { b.put(b.root, "doc", "ours") }, func(b *bench) { b.put(b.lower, "doc", "theirs") },
			nil, nil, vfs.Conflict, map[string]string{"doc": "theirs"}},
		{"ours", func(b *bench) { b.put(b.root, "doc", "ours") }, func(b *bench) { b.put(b.lower, "doc", "theirs") },
			[]string{"doc"}, nil, "", map[string]string{"doc": "ours"}},
		{"theirs", func(b *bench) { b.put(b.root, "doc", "ours"); b.put(b.root, "run", "both") }, func(b *bench) { b.put(b.lower, "doc", "theirs") },
			nil, []string{"doc"}, "", map[string]string{"doc": "theirs", "run": "both"}},
		{"another path", func(b *bench) { b.put(b.root, "doc", "ours"); b.put(b.root, "run", "both") }, func(b *bench) { b.put(b.lower, "doc", "theirs") },
			[]string{"run"}, nil, vfs.Conflict, map[string]string{"doc": "theirs"}},
		{"a path without a change", func(b *bench) { b.put(b.root, "doc", "ours") }, func(b *bench) {},
			[]string{"run"}, nil, vfs.Invalid, map[string]string{"doc": "one\ntwo\nthree\n"}},
		{"what they added to what we removed", func(b *bench) { b.remove(b.root, "src") }, func(b *bench) { b.put(b.lower, "src/more", "theirs") },
			[]string{"src/more"}, nil, "", map[string]string{"src": ""}},
		{"theirs where only we changed", func(b *bench) { b.put(b.root, "doc", "ours") }, func(b *bench) {},
			nil, []string{"doc"}, "", map[string]string{"doc": "one\ntwo\nthree\n"}},
		{"ours in a directory that is gone", func(b *bench) { b.put(b.root, "src/sub/new", "ours") }, func(b *bench) { b.remove(b.lower, "src") },
			[]string{"src"}, nil, "", map[string]string{"src/sub/new": "ours", "src/a.go": ""}},
		{"theirs in a directory that is gone", func(b *bench) { b.put(b.root, "src/sub/new", "ours") }, func(b *bench) { b.remove(b.lower, "src") },
			nil, []string{"src"}, "", map[string]string{"src": ""}},
		{"ours in a directory that is a file now", func(b *bench) { b.put(b.root, "src/new", "ours") }, func(b *bench) {
			b.remove(b.lower, "src")
			b.put(b.lower, "src", "theirs")
		}, []string{"src"}, nil, "", map[string]string{"src/new": "ours"}},
		{"ours removes what they added to", func(b *bench) { b.remove(b.root, "src") }, func(b *bench) {
			b.put(b.lower, "src/more", "theirs")
			b.mkdir(b.lower, "src/deep")
			b.put(b.lower, "src/deep/file", "theirs")
		}, []string{"src"}, nil, "", map[string]string{"src": ""}},
		{"theirs keeps what we removed", func(b *bench) { b.remove(b.root, "src") }, func(b *bench) { b.put(b.lower, "src/more", "theirs") },
			nil, []string{"src"}, "", map[string]string{"src/more": "theirs", "src/a.go": "package a\n"}},
		{"one place of what was moved", func(b *bench) { b.move("doc", "moved") }, func(b *bench) {},
			nil, []string{"moved"}, vfs.Invalid, map[string]string{"doc": "one\ntwo\nthree\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, project)
			test.above(b)
			test.below(b)
			done, err := b.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t), Ours: test.ours, Theirs: test.theirs})
			if vfs.CodeOf(err) != test.code {
				t.Fatalf("Apply of %v: %v, want %q", done.Changes, err, test.code)
			}
			for path, want := range test.want {
				if n, err := vfs.Walk(t.Context(), b.lower, path); want == "" {
					if vfs.CodeOf(err) != vfs.NotFound {
						t.Errorf("%s is there: %v, %v", path, n, err)
					}
				} else if got := text(t, b.lower, path); got != want {
					t.Errorf("%s is %q, want %q", path, got, want)
				}
			}
			if test.code == "" {
				b.changed()
				same(t, "the overlay", shape(t, b.lower), shape(t, b.root))
			}
		})
	}
}
