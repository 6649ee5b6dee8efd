package search

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/ignore"
)

// Outline lists a tree level by level, so that what is shown is the tree's shape even where
// it is cut. A level that does not fit is shared evenly by its directories, and in each
// the directories come first. Links are not followed.
type Outline struct {
	Depth   int // most levels
	Entries int // most entries
	Bytes   int // most bytes of names, with 2 for each level above and 1 besides
	Work    int // most entries to look at, and files to read for, in entries

	IgnoreFiles bool        // leave out what ignore files name, as Search does
	Above       *ignore.Dir // what ignore files above the tree say in it; nil: nothing
	NoHidden    bool        // leave out names that begin with a dot

	// Yield may be nil. It is called now and then, and its error ends the outline.
	Yield func() error
	// Missed is that of Search.
	Missed func(path string, err error)
}

// Branch is an entry of an outline.
type Branch struct {
	vfs.Entry      // Name is the path
	Depth     int  // 1 for the entries of the directory itself, which has 0
	More      int  // how many of its entries are not shown
	AtLeast   bool // there may be more: not all were looked at
	Left      int  // how many of its entries are left out because they are ignored or hidden
}

// branch is a Branch while its entries are not known.
type branch struct {
	Branch
	out     *ignore.Dir
	found   []vfs.Entry // what is not left out
	shown   []*branch
	listed  bool
	loading loading
	err     error
}

type outliner struct {
	Outline
	f      *finder
	ctx    context.Context
	root   vfs.Dir
	looked atomic.Int64
}

// Of returns the outline of d, in tree order. The first branch is d itself. It returns an
// error when d itself cannot be listed, or when every further lookup would fail with the
// same error.
func (o Outline) Of(ctx context.Context, d vfs.Dir) ([]Branch, error) {
	if o.Missed == nil {
		o.Missed = func(string, error) {}
	}
	if o.Above == nil {
		o.Above = &ignore.Dir{}
	}
	w := &outliner{Outline: o, ctx: ctx, root: d}
	w.f = &finder{Search: Search{Missed: o.Missed}, ctx: ctx}
	top := &branch{Branch: Branch{Entry: vfs.Entry{Kind: vfs.DirKind}}, out: o.Above}
	for level := []*branch{top}; len(level) > 0; {
		if err := w.list(level); err != nil {
			return nil, err
		}
		level = w.show(level)
	}
	if err := searchable(ctx, d); err != nil {
		return nil, err
	}
	return top.appendTo(nil), nil
}

// appendTo appends b and what is shown below it.
func (b *branch) appendTo(all []Branch) []Branch {
	all = append(all, b.Branch)
	for _, s := range b.shown {
		all = s.appendTo(all)
	}
	return all
}

// show shows what there is room for of the entries of a level, and returns the directories
// among them.
func (w *outliner) show(level []*branch) (dirs []*branch) {
	if level[0].Depth >= w.Depth {
		w.Entries = 0
	}
	counts, bytes := make([]int, len(level)), make([]int, len(level))
	for i, b := range level {
		counts[i] = len(b.found)
		for _, e := range b.found {
			bytes[i] += b.cost(e)
		}
	}
	counts, bytes = share(counts, w.Entries), share(bytes, w.Bytes)
	for i, b := range level {
		w.Bytes -= b.take(counts[i], bytes[i])
		w.Entries -= len(b.shown)
		for _, s := range b.shown {
			if s.Kind != vfs.DirKind {
				continue
			}
			if s.out = b.out; w.IgnoreFiles {
				s.out = b.out.Enter(base(s.Name))
			}
			if vfs.CheckPathSize(s.Name+"/") == nil {
				dirs = append(dirs, s)
			}
		}
	}
	return dirs
}

// cost is how many bytes an entry of b counts.
func (b *branch) cost(e vfs.Entry) int { return len(e.Name) + 2*b.Depth + 1 }

// take shows at most so many entries and bytes of what was found in b. It returns how many
// bytes that are.
func (b *branch) take(entries, bytes int) (used int) {
	all := 0
	for _, e := range b.found {
		all += b.cost(e)
	}
	if len(b.found) > entries || all > bytes {
		slices.SortStableFunc(b.found, func(x, y vfs.Entry) int { return rankKind(x.Kind) - rankKind(y.Kind) })
	}
	for _, e := range b.found {
		cost := b.cost(e)
		if len(b.shown) == entries || used+cost > bytes {
			break
		}
		used += cost
		b.shown = append(b.shown, &branch{Branch: Branch{Entry: vfs.Entry{Name: vfs.Join(b.Name, e.Name), Kind: e.Kind}, Depth: b.Depth + 1}})
	}
	b.More = len(b.found) - len(b.shown)
	b.found = nil
	slices.SortFunc(b.shown, func(x, y *branch) int { return strings.Compare(x.Name, y.Name) })
	return used
}

// rankKind is 0 for what comes first where not everything is shown.
func rankKind(k vfs.Kind) int {
	if k == vfs.DirKind {
		return 0
	}
	return 1
}

// share shares room among those who want so much each. Nobody gets less than another who
// wants as much, and what one does not want goes to the others.
func share(want []int, room int) []int {
	order := make([]int, len(want))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return want[a] - want[b] })
	got := make([]int, len(want))
	for n, i := range order {
		left := len(order) - n
		got[i] = min(want[i], (room+left-1)/left) // the first get what cannot be divided
		room -= got[i]
	}
	return got
}
