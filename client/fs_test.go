package client_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// fsTree has links that stay within it, which io/fs follows.
var fsTree = vfstest.Tree{
	"README.md":              {Data: "# read me\n"},
	"empty":                  {},
	"bin/run":                {Data: "#!/bin/sh\n", Exec: true},
	"docs/a.md":              {Data: "a"},
	"docs/deep/er/b.md":      {Data: strings.Repeat("b", 300_000)},
	"docs/latest":            {Link: "deep/er"},
	"docs/latest.md":         {Link: "latest/b.md"},
	"hollow":                 {Dir: true},
	"link":                   {Link: "docs/a.md"},
	"docs/deep/back":         {Link: "../../bin/run"},
	"naïve/世界/ with spaces ": {Data: "odd"},
}

// TestFS shows that a served directory is an io/fs file system like any other.
func TestFS(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			d := guest(t, store(t, fsTree))
			var expected []string
			for path := range fsTree.All() {
				expected = append(expected, path)
			}
			if name == "mounted" {
				expected = append(expected, "mnt/disk/on/disk")
			}
			slices.Sort(expected)
			ok(t, fstest.TestFS(vfs.FS(t.Context(), d), expected...))
		})
	}
}

// TestFSOfASubDir starts below a link's target, which then leads outside.
func TestFSOfASubDir(t *testing.T) {
	d := guest(t, scene.InMemory(t, vfstest.Tree{"docs/a.md": {Data: "a"}, "docs/deep/b.md": {Data: "b"}, "docs/up": {Link: "deep/b.md"}}))
	ok(t, fstest.TestFS(vfs.FS(t.Context(), d.SubDir("docs").ReadOnly()), "a.md", "deep/b.md", "up"))
}
