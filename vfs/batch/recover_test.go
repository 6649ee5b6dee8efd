package batch_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/batch"
)

// What somebody else has changed since then stays and is reported. Its old content is
// available until the batch is forgotten.
func TestRecoverLeaves(t *testing.T) {
	ctx := t.Context()
	target, journal := halfDone(t, before.with(faultEdit))
	d, j := target.sound(), journal.sound()
	put(t, d, "a", "another's")
	in, err := vfs.WalkDir(ctx, d, "turn")
	ok(t, err)
	put(t, in, "foreign", "x")

	open := func(context.Context, string) (vfs.Dir, error) { return target.sound(), nil }
	all, err := batch.Recover(ctx, j, open)
	ok(t, err)
	if len(all) != 1 || all[0].Name != "target" || all[0].Done || all[0].Err != nil {
		t.Fatalf("recovered %+v", all)
	}
	var left []string
	for _, c := range all[0].Left {
		left = append(left, c.Path)
	}
	if got := strings.Join(left, " "); got != "a turn" {
		t.Errorf("left %q", got)
	}
	holds(t, d, before.with(tree{"a": "file:another's", "turn": "dir", "turn/foreign": "file:x"}))

	if again, err := batch.Recover(ctx, j, nil); len(again) != 1 || !again[0].Kept || again[0].Done || err != nil {
		t.Errorf("the second Recover: %+v, %v", again, err)
	}
	id := all[0].ID
	if err := batch.Undo(ctx, j, id, d); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("Undo of what is undone: %v, want invalid", err)
	}
	changes, err := batch.Load(ctx, j, id)
	ok(t, err)
	for _, c := range changes {
		same(t, c.Was, c.Old)
	}
	needed(t, j, true)
	ok(t, batch.Forget(ctx, j, id))
	empty(t, j)
	needed(t, j, false)
}

func needed(t *testing.T, journal vfs.Dir, want bool) {
	t.Helper()
	if is, err := batch.Needed(t.Context(), journal); is != want || err != nil {
		t.Errorf("needed: %v, %v", is, err)
	}
}

// A batch whose target cannot be opened is kept until it can be.
func TestRecoverLater(t *testing.T) {
	ctx := t.Context()
	target, journal := halfDone(t, before.with(faultEdit))
	j := journal.sound()
	needed(t, j, true)
	gone := vfs.Errorf(vfs.NotFound, "not mounted")
	all, err := batch.Recover(ctx, j, func(context.Context, string) (vfs.Dir, error) { return nil, gone })
	if len(all) != 1 || !errors.Is(all[0].Err, gone) || !errors.Is(err, gone) {
		t.Errorf("%+v, %v", all, err)
	}
	if err := batch.Forget(ctx, j, all[0].ID); vfs.CodeOf(err) != vfs.Busy {
		t.Errorf("Forget of what is not over: %v, want busy", err)
	}
	recovered(t, target, journal, before.with(faultEdit))
}

// A batch whose target is gone for good is dropped.
func TestRecoverGone(t *testing.T) {
	_, journal := halfDone(t, before.with(faultEdit))
	all, err := batch.Recover(t.Context(), journal.sound(), func(context.Context, string) (vfs.Dir, error) { return nil, nil })
	ok(t, err)
	if len(all) != 1 || all[0].Done || all[0].Name != "target" {
		t.Errorf("recovered %+v", all)
	}
	empty(t, journal.sound())
}

// What is damaged in the journal is reported, and the rest is recovered.
func TestBrokenJournal(t *testing.T) {
	const id = "0123456789abc-0123456789abcdef"
	for name, files := range map[string]map[string]string{
		"intent":   {id + ".intent": "{"},
		"contents": {id + ".intent": `{"format":1,"changes":[{"path":"a","becomes":{"kind":"file","version":"` + version("x").String() + `"}}]}`},
		"outcome":  {id + ".intent": `{"format":1}`, id + ".outcome": "perhaps"},
	} {
		target, journal := halfDone(t, before.with(faultEdit))
		j := journal.sound()
		put(t, j, "notes", "not the journal's")
		for name, data := range files {
			put(t, j, name, data)
		}
		all, err := batch.Recover(t.Context(), j, func(context.Context, string) (vfs.Dir, error) { return target.sound(), nil })
		if len(all) != 2 || vfs.CodeOf(err) != vfs.Corrupt {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
		if needed, _ := batch.Needed(t.Context(), j); !needed {
			t.Errorf("%s: what cannot be read is not needed", name)
		}
		holds(t, target.sound(), before)
	}
}

// A damaged copy is not written back into the tree.
func TestRottenCopy(t *testing.T) {
	ctx := t.Context()
	d, j := store(t, before), journal()
	after := before.with(tree{"a": "file:new"})
	id, err := batch.Run(ctx, j, d, changes(before, after), batch.Options{Keep: true})
	ok(t, err)
	needed(t, j, false)
	put(t, j, id+".data", strings.Repeat("?", 100))
	if err := batch.Undo(ctx, j, id, d); vfs.CodeOf(err) != vfs.Corrupt {
		t.Errorf("Undo: %v, want corrupt", err)
	}
	holds(t, d, after)
	loaded, err := batch.Load(ctx, j, id)
	ok(t, err)
	r, err := loaded[0].Content(ctx)
	ok(t, err)
	defer r.Close()
	if _, err := io.ReadAll(r); vfs.CodeOf(err) != vfs.Corrupt {
		t.Errorf("reading the copy: %v, want corrupt", err)
	}
}

// Of several unfinished batches the latest is undone first: it may build on an earlier
// one.
func TestRecoverLatestFirst(t *testing.T) {
	ctx := t.Context()
	target, j := newPlace(t, before), journal()
	d, at := target.sound(), before
	for _, data := range []string{"file:one", "file:two", "file:three"} {
		next := at.with(tree{"a": data})
		id, err := batch.Run(ctx, j, d, changes(at, next), batch.Options{Keep: true})
		ok(t, err)
		ok(t, j.Remove(ctx, id+".outcome", vfs.If{}))
		at = next
		time.Sleep(2 * time.Millisecond) // ids are in the order of their milliseconds
	}
	all, err := batch.Recover(ctx, j, func(context.Context, string) (vfs.Dir, error) { return target.sound(), nil })
	ok(t, err)
	for _, r := range all {
		if len(r.Left) > 0 {
			t.Errorf("left: %v", r.Left)
		}
	}
	if len(all) != 3 {
		t.Errorf("%d were recovered, want 3", len(all))
	}
	holds(t, d, before)
}
