package cap_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

// TestEditorsAtOnce: of 50 edits of different places of one file at once, over the wire, all are made, whichever
// capability they come through.
func TestEditorsAtOnce(t *testing.T) {
	const n = 50
	_, _, d := guest(t, nil)
	ctx := t.Context()
	var was, becomes strings.Builder
	for i := range n {
		fmt.Fprintf(&was, "line %d.\r\n", i)
		fmt.Fprintf(&becomes, "edited %d.\r\n", i)
	}
	_, err := d.Put(ctx, "edited", strings.NewReader(was.String()), vfs.If{})
	ok(t, err)
	one, _ := d.OpenFile("edited").Revocable()
	defer one.Close()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			f := one
			if i%2 == 0 {
				f = d.OpenFile("edited")
				defer f.Close()
			}
			_, err := f.Edit(ctx, editing.Request{Edits: []edit.Edit{{Old: fmt.Appendf(nil, "line %d.\n", i), New: fmt.Appendf(nil, "edited %d.\n", i)}}})
			if err != nil {
				t.Errorf("edit %d: %v", i, err)
			}
		})
	}
	all.Wait()
	text, _, err := d.OpenFile("edited").ReadText(ctx)
	if err != nil || text != becomes.String() {
		t.Errorf("afterwards it is %q, %v", text, err)
	}
}

// TestEditOverTheWire: what an edit answers, and what it refuses.
func TestEditOverTheWire(t *testing.T) {
	_, _, d := guest(t, nil)
	ctx := t.Context()
	_, err := d.Put(ctx, "e", strings.NewReader("a\nb\nc\n"), vfs.If{})
	ok(t, err)
	f := d.OpenFile("e")
	defer f.Close()
	got, err := f.Edit(ctx, editing.Request{Edits: []edit.Edit{{Old: []byte("b"), New: []byte("x\ny")}}})
	if err != nil || fmt.Sprint(got.Changed) != "[{2 2}]" || got.Replaced != 1 || string(got.Diff) != "--- a/e\n+++ b/e\n@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n" {
		t.Errorf("%+v, %q, %v", got, got.Diff, err)
	}
	for name, r := range map[string]struct {
		r    editing.Request
		want vfs.Code
	}{
		"nothing":                  {editing.Request{}, vfs.Invalid},
		"lines without a version":  {editing.Request{Edits: []edit.Edit{{ByLines: true, Lines: edit.Range{First: 1, Count: 1}, New: []byte("q")}}}, vfs.Invalid},
		"another version":          {editing.Request{Edits: []edit.Edit{{Old: []byte("a"), New: []byte("q")}}, If: thisVersion}, vfs.Conflict},
		"too many":                 {editing.Request{Edits: make([]edit.Edit, edit.MaxEdits+1)}, vfs.Limit},
		"a line that is not there": {editing.Request{Edits: []edit.Edit{{ByLines: true, Lines: edit.Range{First: 1 << 40}}}}, vfs.Invalid},
	} {
		_, err := f.Edit(ctx, r.r)
		is(t, name, err, r.want)
	}
	_, err = f.ReadOnly().Edit(ctx, editing.Request{Edits: []edit.Edit{{Old: []byte("none"), New: []byte("q")}}, Dry: true})
	is(t, "a dry run that may not write", err, vfs.ReadOnly)
}
