package console_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// The pages have every mount once, including the one at the root, however short they are.
func TestMountPages(t *testing.T) {
	h := example()
	h.mounts = []operator.Mount{{Path: "", Kind: "memory"}}
	for i := range 2500 {
		m := operator.Mount{Path: fmt.Sprintf("m%04d", i), Kind: "memory"}
		if i%100 == 0 {
			m.Attenuation.Deny = []string{strings.Repeat("x", 200<<10)}
		}
		h.mounts = append(h.mounts, m)
	}
	got, err := virtualFs(t, h).Mounts(t.Context())
	ok(t, err)
	same(t, "all pages", got, h.mounts)

	h.mounts = h.mounts[:5]
	fs := raw(t, h)
	defer fs.Release()
	var paths []string
	pages := 0
	for more, after := true, []byte(nil); more; pages++ {
		ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_mounts, func(p schema.VirtualFs_mounts_Params, _ *vat.Caps) error {
			p.SetLimit(1)
			return p.SetAfter(after)
		}, func(r schema.VirtualFs_mounts_Results, _ *vat.Caps) error {
			l, err := r.Mounts()
			ok(t, err)
			for i := range l.Len() {
				path, err := l.At(i).Path()
				ok(t, err)
				paths = append(paths, path)
			}
			cursor, err := r.Cursor()
			after, more = slices.Clone(cursor), r.More()
			return err
		}))
	}
	same(t, "pages of one", paths, []string{"", "m0000", "m0001", "m0002", "m0003"})
	same(t, "pages of one", pages, 5)
}

// Thousands of changes arrive in pages that are bounded in number and in bytes.
func TestDiffPages(t *testing.T) {
	h := example()
	h.changes = nil
	for i := range 6000 {
		c := diff.Change{Path: fmt.Sprintf("dir/\xff%05d", i), Kind: diff.Added, Is: diff.State{Kind: vfs.FileKind, Version: version(1)}}
		if i%100 == 0 {
			c.Text = strings.Repeat("+\n", 128<<10)
		}
		h.changes = append(h.changes, c)
	}
	client := virtualFs(t, h)
	var all []diff.Change
	_, err := client.Diff(t.Context(), "p", operator.DiffOptions{}, "", collect(&all))
	ok(t, err)
	same(t, "all pages", all, h.changes)

	all = nil
	_, err = client.Diff(t.Context(), "p", operator.DiffOptions{}, h.changes[10].Path, func(c diff.Change) bool {
		all = append(all, c)
		return len(all) < 3
	})
	ok(t, err)
	same(t, "three after one", all, h.changes[11:14])

	fs := raw(t, h)
	defer fs.Release()
	seen := 0
	for more, after := true, ""; more; {
		ok(t, vat.Do(t.Context(), fs, schema.VirtualFs_diff, func(p schema.VirtualFs_diff_Params, _ *vat.Caps) error {
			p.SetLimit(700)
			return p.SetAfter([]byte(after))
		}, func(r schema.VirtualFs_diff_Results, _ *vat.Caps) error {
			l, err := r.Changes()
			ok(t, err)
			bytes := 0
			for i := range l.Len() {
				c, err := wire.Change(l.At(i))
				ok(t, err)
				bytes += len(c.Text)
				after = c.Path
			}
			if more = r.More(); more && l.Len() == 0 || l.Len() > 700 || l.Len() > 1 && bytes > 1<<20 {
				t.Errorf("a page of %d changes and %d bytes of text, more: %v", l.Len(), bytes, more)
				more = false
			}
			seen += l.Len()
			return nil
		}))
	}
	same(t, "changes on all pages", seen, len(h.changes))
}

// The changes in a materialized tree, and what is left out, arrive in order, in pages of
// one look.
func TestMaterializedPages(t *testing.T) {
	h := example()
	h.changes, h.skipped = nil, nil
	for i := range 4000 {
		path := fmt.Sprintf("%05d", i)
		if i%2 == 0 {
			h.changes = append(h.changes, diff.Change{Path: path, Kind: diff.Added})
		}
		if i%3 == 0 {
			h.skipped = append(h.skipped, diff.Skipped{Path: path, Why: "a link"})
		}
	}
	tree, err := virtualFs(t, h).Materialize(t.Context(), "", operator.Bounds{}, nil)
	ok(t, err)
	defer tree.Close()
	for range 2 {
		changes, skipped, err := tree.Changes(t.Context())
		ok(t, err)
		same(t, "changes", changes, h.changes)
		same(t, "skipped", skipped, h.skipped)
	}
	same(t, "looks", h.looks, 2)

	fs := raw(t, h)
	defer fs.Release()
	a := vat.Send(t.Context(), fs, schema.VirtualFs_materialize, nil)
	defer a.Release()
	bare := a.Cap(schema.VirtualFs_materialize_Results_tree)
	defer bare.Release()
	page := func(after string, limit uint32) (names []string, cursor string, err error) {
		err = vat.Do(t.Context(), bare, schema.Materialized_changes, func(p schema.Materialized_changes_Params, _ *vat.Caps) error {
			p.SetLimit(limit)
			return p.SetAfter([]byte(after))
		}, func(r schema.Materialized_changes_Results, _ *vat.Caps) error {
			changes, err := r.Changes()
			ok(t, err)
			skipped, err := r.Skipped()
			ok(t, err)
			for i := range changes.Len() {
				path, err := changes.At(i).Path()
				ok(t, err)
				names = append(names, "c"+path)
			}
			for i := range skipped.Len() {
				path, err := skipped.At(i).Path()
				ok(t, err)
				names = append(names, "s"+path)
			}
			b, err := r.Cursor()
			cursor = string(b)
			return err
		})
		return names, cursor, err
	}
	var all []string
	cursor := ""
	for range 5 {
		names, next, err := page(cursor, 1)
		ok(t, err)
		all = append(all, names...)
		cursor = next
	}
	same(t, "pages of one", all, []string{"c00000", "s00000", "c00002", "s00003", "c00004"})
	h.changes, h.skipped = h.changes[:1], nil // a later look would have no more than that
	names, _, err := page(cursor, 2)
	ok(t, err)
	same(t, "the page after, of the same look", names, []string{"c00006", "s00006"})
	_, _, err = page("x", 1)
	is(t, "a cursor that is none", wire.Decode(err), vfs.Invalid)
}

// The list of what a sync left out is bounded, and its length is counted.
func TestSyncLeavesOutMuch(t *testing.T) {
	h := example()
	h.skipped = nil
	for i := range 5000 {
		h.skipped = append(h.skipped, diff.Skipped{Path: fmt.Sprintf("%s%05d", strings.Repeat("d/", 500), i), Why: "a FIFO"})
	}
	fs := raw(t, h)
	defer fs.Release()
	a := vat.Send(t.Context(), fs, schema.VirtualFs_materialize, nil)
	defer a.Release()
	tree := a.Cap(schema.VirtualFs_materialize_Results_tree)
	defer tree.Release()
	ok(t, vat.Do(t.Context(), tree, schema.Materialized_sync, nil, func(r schema.Materialized_sync_Results, _ *vat.Caps) error {
		l, err := r.Skipped()
		ok(t, err)
		if l.Len() == 0 || l.Len() == len(h.skipped) || r.SkippedTotal() != uint64(len(h.skipped)) || r.Changes() != 5 {
			t.Errorf("%d of %d were left out, and %d changes; want some of %d, and 5", l.Len(), r.SkippedTotal(), r.Changes(), len(h.skipped))
		}
		return nil
	}))
}
