package tests

import (
	"strings"
	"testing"

	"capd/vfs"
)

// What a guest moves from one mount to another comes back.
func TestUndoMoveBetweenMounts(t *testing.T) {
	h := serve(t)
	ctx := t.Context()
	d := dial(t, h.locator).Dir(ctx)
	for _, way := range [][2]string{{"project/m", "tmp/m"}, {"tmp/n", "project/n"}} {
		_, err := d.Put(ctx, way[0], strings.NewReader("moved"), vfs.If{})
		ok(t, err)
		ok(t, d.Move(ctx, way[0], d, way[1], vfs.If{}, vfs.If{}))
		_, err = d.Undo(ctx, vfs.Undo{Last: 1})
		ok(t, err)
		if b, _, err := d.OpenFile(way[0]).ReadBytes(ctx); string(b) != "moved" {
			t.Errorf("after the undo of a move, %s holds %q, %v", way[0], b, err)
		}
		ok(t, d.Move(ctx, way[0], d, way[1], vfs.If{}, vfs.If{}))
		_, err = d.Put(ctx, way[1], strings.NewReader("other"), vfs.If{})
		ok(t, err)
		page, err := d.History(ctx, vfs.PastQuery{})
		ok(t, err)
		_, err = d.Undo(ctx, vfs.Undo{ID: page.Entries[1].ID})
		is(t, "undo of a move of what was changed since", err, "conflict")
	}
}
