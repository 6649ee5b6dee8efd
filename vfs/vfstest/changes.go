package vfstest

import (
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

var changesRules = []rule{
	{"Changes", writable, testChanges},
	{"Changes/Waits", writable, testChangesWait},
	{"Changes/Cursors", anyStore, testChangesCursors},
}

// tells returns a cursor, unless the store does not tell what changes.
func (w *world) tells() (cursor []byte, ok bool) {
	w.Helper()
	page, err := vfs.Changes(w.ctx, w.root, vfs.ChangesQuery{})
	if vfs.CodeOf(err) == vfs.Unsupported {
		return nil, false
	}
	w.ok("Changes", err)
	if !page.Rescan || len(page.Events) > 0 || len(page.Cursor) == 0 {
		w.Errorf("the first Changes answers %+v", page)
	}
	return page.Cursor, true
}

// told returns what is told since a cursor, as words in order.
func (w *world) told(cursor []byte) (all []string, next []byte) {
	w.Helper()
	for {
		page, err := vfs.Changes(w.ctx, w.root, vfs.ChangesQuery{Cursor: cursor})
		w.ok("Changes", err)
		if page.Rescan {
			w.Fatalf("Changes answers rescan after %q", all)
		}
		if cursor = page.Cursor; len(page.Events) == 0 {
			return all, cursor
		}
		for _, e := range page.Events {
			if !e.Own || e.By != "" || time.Since(time.UnixMilli(e.AtMs)) > time.Hour {
				w.Errorf("an event is %+v", e)
			}
			all = append(all, strings.TrimSpace(e.Kind.String()+" "+e.From)+" "+e.Path)
		}
	}
}

// tellsOf checks what is told since a cursor.
func (w *world) tellsOf(what string, cursor []byte, want ...string) (next []byte) {
	w.Helper()
	got, next := w.told(cursor)
	got = slices.Compact(got) // they may come with two answers
	if !slices.Equal(got, want) {
		w.Errorf("%s is told as %q, want %q", what, got, want)
	}
	return next
}

func testChanges(w *world) {
	w.make(sample)
	cursor, ok := w.tells()
	if !ok {
		return
	}
	cursor = w.tellsOf("nothing", cursor)
	w.put("new", "content")
	w.put("f", "other content")
	cursor = w.tellsOf("two puts", cursor, "created new", "changed f")
	_, err := w.root.Mkdir(w.ctx, "made")
	w.ok("Mkdir", err)
	_, err = w.dir("made").Replace(w.ctx, "in", strings.NewReader("x"), vfs.If{})
	w.ok("Replace", err)
	cursor = w.tellsOf("a directory", cursor, "created made", "created made/in")
	_, err = w.file("f").WriteAt(w.ctx, []byte("xyz"), 0, vfs.If{})
	if vfs.CodeOf(err) != vfs.Unsupported {
		w.ok("WriteAt", err)
		w.ok("Truncate", w.file("f").Truncate(w.ctx, 1, vfs.If{}))
		cursor = w.tellsOf("writes in place", cursor, "changed f")
	}
	w.ok("Rename", w.root.Rename(w.ctx, "new", w.dir("made"), "moved", vfs.If{}, vfs.If{}))
	cursor = w.tellsOf("a move", cursor, "moved new made/moved")
	w.ok("Remove", w.root.Remove(w.ctx, "f", vfs.If{}))
	cursor = w.tellsOf("a removal", cursor, "removed f")
	w.ok("a copy", w.copies(w.ctx, "made", "", "copied", vfs.If{}, vfs.If{}))
	got, cursor := w.told(cursor)
	if len(got) == 0 || got[0] != "created copied" || slices.ContainsFunc(got, func(e string) bool { return !strings.Contains(e, " copied") }) {
		w.Errorf("a copy is told as %q", got)
	}
	w.is("a Mkdir that fails", func() error { _, err := w.root.Mkdir(w.ctx, "made"); return err }(), vfs.Exists)
	w.tellsOf("what failed", cursor)
	page, err := vfs.Changes(w.ctx, w.root, vfs.ChangesQuery{Cursor: cursor, Others: true})
	w.ok("Changes by others", err)
	if len(page.Events) > 0 {
		w.Errorf("others are told of %+v", page.Events)
	}
}

func testChangesWait(w *world) {
	w.make(sample)
	cursor, ok := w.tells()
	if !ok {
		return
	}
	done := make(chan error, 1)
	root := w.root
	go func() {
		time.Sleep(20 * time.Millisecond)
		_, err := root.Replace(w.ctx, "late", strings.NewReader("x"), vfs.If{})
		done <- err
	}()
	page, err := vfs.Changes(w.ctx, w.root, vfs.ChangesQuery{Cursor: cursor, Wait: vfs.MaxChangesWait})
	w.ok("Changes", err)
	w.ok("Replace", <-done)
	if len(page.Events) != 1 || page.Events[0].Path != "late" {
		w.Errorf("what waits is told %+v", page)
	}
}

func testChangesCursors(w *world) {
	w.make(sample)
	cursor, ok := w.tells()
	if !ok {
		return
	}
	_, err := vfs.Changes(w.ctx, w.root, vfs.ChangesQuery{Cursor: []byte("no cursor")})
	w.is("Changes since what is no cursor", err, vfs.Invalid)
	forged := slices.Clone(cursor)
	forged[0] ^= 1
	for _, c := range []struct {
		what   string
		d      vfs.Dir
		cursor []byte
	}{{"a forged cursor", w.root, forged}, {"a cursor of another Dir", w.dir("d"), cursor}} {
		page, err := vfs.Changes(w.ctx, c.d, vfs.ChangesQuery{Cursor: c.cursor})
		w.ok(c.what, err)
		if !page.Rescan {
			w.Errorf("%s answers %+v", c.what, page)
		}
	}
}
