package cap_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// page asks for one page of a listing.
func page(t *testing.T, d *client.Dir, after string, limit uint32) (names []string, more bool) {
	t.Helper()
	ok(t, call(t, d.Cap(), schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error {
		p.SetLimit(limit)
		return p.SetAfter([]byte(after))
	}, func(r schema.Dir_list_Results, _ *vat.Caps) error {
		more = r.More()
		l, err := r.Entries()
		for i := range l.Len() {
			name, err := wire.Name(l.At(i))
			ok(t, err)
			names = append(names, name)
		}
		return err
	}))
	return names, more
}

func pages(t *testing.T, d *client.Dir, limit uint32) (all []string) {
	t.Helper()
	for after, more := "", true; more; {
		var names []string
		if names, more = page(t, d, after, limit); more {
			after = names[len(names)-1]
		}
		if len(names) > int(limit) {
			t.Errorf("a page of %d for %d", len(names), limit)
		}
		all = append(all, names...)
	}
	return all
}

func letters(s string) vfstest.Tree {
	tree := vfstest.Tree{}
	for _, c := range s {
		tree[string(c)] = vfstest.Node{}
	}
	return tree
}

func TestListPages(t *testing.T) {
	_, _, d := guest(t, letters("abcdefghij"))
	want := strings.Split("abcdefghij", "")
	for limit := uint32(1); limit <= 11; limit++ {
		if got := pages(t, d, limit); !slices.Equal(got, want) {
			t.Errorf("in pages of %d: %q", limit, got)
		}
	}
	for after, want := range map[string]string{"": "ab", "a": "bc", "c": "de", "cc": "de", "B": "ab", "i": "j", "j": "", "\xff": ""} {
		names, more := page(t, d, after, 2)
		if got := strings.Join(names, ""); got != want || more != (len(want) == 2) {
			t.Errorf("after %q: %q and more: %v, want %q", after, got, more, want)
		}
	}
}

// A page of long names is shorter than requested, because its bytes are bounded. No name
// is lost.
func TestPageOfLongNames(t *testing.T) {
	const files = 5000
	tree := vfstest.Tree{}
	for i := range files {
		tree[fmt.Sprintf("%0250d", i)] = vfstest.Node{}
	}
	_, _, d := guest(t, tree)
	names, more := page(t, d, "", files)
	if len(names) > 4000 || !more {
		t.Errorf("a page of %d names of 250 bytes, and more: %v", len(names), more)
	}
	if all := pages(t, d, files); len(all) != files {
		t.Errorf("%d names in all", len(all))
	}
}

func TestListWhileItChanges(t *testing.T) {
	_, _, d := guest(t, letters("bdfhjl"))
	names, more := page(t, d, "", 2) // b d
	for _, c := range "ace" {
		_, err := d.Put(t.Context(), string(c), strings.NewReader(""), vfs.If{})
		ok(t, err)
	}
	ok(t, d.RemovePath(t.Context(), "d", vfs.If{}))
	ok(t, d.RemovePath(t.Context(), "j", vfs.If{}))
	for more {
		var next []string
		next, more = page(t, d, names[len(names)-1], 2)
		names = append(names, next...)
	}
	// An entry that was there all the time is listed once. One that was added or removed
	// meanwhile may be listed.
	got := strings.Join(names, "")
	for _, c := range "bfhl" {
		if strings.Count(got, string(c)) != 1 {
			t.Errorf("%c is in %q %d times", c, got, strings.Count(got, string(c)))
		}
	}
	if !slices.IsSorted(names) || strings.Contains(got, "a") {
		t.Errorf("out of order, or from before where it was: %q", got)
	}
}

func TestListInterleaved(t *testing.T) {
	_, _, d := guest(t, letters("abcdefgh"))
	one, two := "", ""
	for range 4 {
		a, _ := page(t, d, one[max(len(one)-1, 0):], 2)
		b, _ := page(t, d, two[max(len(two)-1, 0):], 2)
		one, two = one+strings.Join(a, ""), two+strings.Join(b, "")
	}
	if one != "abcdefgh" || two != one {
		t.Errorf("two at once: %q and %q", one, two)
	}
}

// There are more listings than a connection keeps. Those that were dropped begin again,
// and the caller does not notice.
func TestListDropped(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 40 {
		for _, c := range "abcd" {
			tree[fmt.Sprintf("d%02d/%c", i, c)] = vfstest.Node{}
		}
	}
	_, _, d := guest(t, tree)
	var dirs []*client.Dir
	for i := range 40 {
		dirs = append(dirs, d.SubDir(fmt.Sprintf("d%02d", i)))
	}
	for _, after := range []string{"", "b"} {
		for i, d := range dirs {
			names, more := page(t, d, after, 2)
			want := map[string]string{"": "ab", "b": "cd"}[after]
			if strings.Join(names, "") != want || more != (after == "") {
				t.Errorf("directory %d after %q: %q, more: %v", i, after, names, more)
			}
		}
	}
}

// All listings of a connection go on at once, so that each drops another.
func TestListManyAtOnce(t *testing.T) {
	tree := vfstest.Tree{}
	for i := range 64 {
		for j := range 9 {
			tree[fmt.Sprintf("d%02d/%d", i, j)] = vfstest.Node{}
		}
	}
	_, _, d := guest(t, tree)
	done := make(chan string)
	for i := range 64 {
		go func() {
			done <- strings.Join(pages(t, d.SubDir(fmt.Sprintf("d%02d", i)), 1), "")
		}()
	}
	for range 64 {
		if got := <-done; got != "012345678" {
			t.Errorf("a directory holds %q", got)
		}
	}
}

// counting counts the listings of a directory that have not ended.
type counting struct {
	vfs.Dir
	listings atomic.Int64
}

func (d *counting) List(ctx context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		d.listings.Add(1)
		defer d.listings.Add(-1)
		d.Dir.List(ctx)(yield)
	}
}

// All connections of a grant together keep only a few listings.
func TestListDroppedOfGrant(t *testing.T) {
	names := letters("abcdef")
	for i := range 1000 { // more than are read from a store at once
		names[fmt.Sprintf("g%03d", i)] = vfstest.Node{}
	}
	tree := &counting{Dir: scene.InMemory(t, names)}
	s := serve(t, tree, nil)
	loc, _ := s.Grant(t, "agent", "", false)
	var dirs []*client.Dir
	for range 20 {
		dirs = append(dirs, scene.Dial(t, loc).Dir(t.Context()))
	}
	for _, after := range []string{"", "b", "d"} {
		for i, d := range dirs {
			names, more := page(t, d, after, 2)
			want := map[string]string{"": "ab", "b": "cd", "d": "ef"}[after]
			if strings.Join(names, "") != want || !more {
				t.Errorf("connection %d after %q: %q, more: %v", i, after, names, more)
			}
		}
		if n := tree.listings.Load(); n > 4 || n == 0 {
			t.Errorf("after %q %d listings are kept", after, n)
		}
	}
}

func TestListHuge(t *testing.T) {
	tree, want := vfstest.Tree{}, make([]string, 0, 30_000)
	for i := range 30_000 {
		name := fmt.Sprintf("%05d-%s", i, strings.Repeat("n", 100))
		tree[name], want = vfstest.Node{}, append(want, name)
	}
	_, _, d := guest(t, tree)
	if got := pages(t, d, 1_000_000); !slices.Equal(got, want) {
		t.Errorf("%d entries, want %d in order", len(got), len(want))
	}
	if first, _ := page(t, d, "", 0); len(first) != wire.DefaultPage {
		t.Errorf("a page of 0 has %d entries", len(first))
	}
	if first, _ := page(t, d, "", 1<<31); len(first) > wire.MaxPage {
		t.Errorf("a page of very many has %d entries", len(first))
	}
}

func TestListRevoked(t *testing.T) {
	_, _, d := guest(t, letters("abcdef"))
	lent, r := d.Revocable()
	page(t, lent, "", 2)
	ok(t, r.Revoke(t.Context()))
	err := call(t, lent.Cap(), schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error {
		return p.SetAfter([]byte("b"))
	}, nil)
	is(t, "the next page", err, vfs.Revoked)
}
