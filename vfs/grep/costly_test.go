package grep_test

import (
	"fmt"
	"strings"
	"testing"

	"capd/vfs/grep"
	"capd/vfs/membrane"
	"capd/vfs/search"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// Patterns of paths that are much work count as work: a page looks at fewer files with them. All
// files are found nevertheless.
func TestCostlyPatternsOfPaths(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 8 {
		tree[fmt.Sprintf("%d%s", i, strings.Repeat("a", 200))] = vfstest.Node{Data: "hit"}
	}
	var ends []string
	for i := range 64 {
		ends = append(ends, fmt.Sprint("b", i))
	}
	var costly []*search.Pattern
	for range 64 {
		p, err := search.Compile("**/*a*a*a{" + strings.Join(ends, ",") + "}")
		check.OK(t, err)
		costly = append(costly, p)
	}
	all, err := search.Compile("**")
	check.OK(t, err)
	_, raw := check.Store(t, tree)
	d := membrane.Guarded(raw, nil)
	for name, s := range map[string]grep.Search{
		"except": {Except: costly},
		"only":   {Only: append(costly, all)},
	} {
		s.Pattern, s.Work = pattern(t, "hit"), 64<<20
		shown, pages := run(t, d, s)
		if len(shown) != len(tree) || pages < 4 {
			t.Errorf("%s: %d of %d files in %d pages", name, len(shown), len(tree), pages)
		}
	}
}
