package tests

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"capd/client"
	"capd/vfs"
	"capd/vfs/step"
)

// shownPast returns what history shows to a guest, as one text.
func shownPast(t *testing.T, d *client.Dir) string {
	t.Helper()
	page, err := d.History(t.Context(), vfs.PastQuery{})
	ok(t, err)
	var b strings.Builder
	for _, e := range page.Entries {
		for _, c := range e.Changes {
			b.WriteString(c.Path + ">" + c.To + "\n")
		}
	}
	return b.String()
}

// A guest looks in history, and in old contents, for what it may not see today.
func TestAttackPast(t *testing.T) {
	h := serve(t)
	ctx := t.Context()
	loc, _, ctl := h.grant("one", "project")
	other, _, _ := h.grant("two", "project")
	d, o := dial(t, loc).Dir(ctx), dial(t, other).Dir(ctx)
	old := vfs.Version(sha256.Sum256([]byte("old words")))
	put := func(d *client.Dir, path, text string) {
		t.Helper()
		ok(t, d.Change(ctx, []step.Step{{Verb: step.Put, Path: path, Data: []byte(text)}}, false))
	}
	ok(t, os.MkdirAll(filepath.Join(h.served, "in"), 0o755))
	ok(t, os.MkdirAll(filepath.Join(h.served, "ssh"), 0o755))
	ok(t, os.WriteFile(filepath.Join(h.served, ".env"), []byte("old words"), 0o600))
	put(d, "a", "old words")
	put(d, "a", "new words")
	put(d, "in/b", "x")
	if got := shownPast(t, o); got != "" {
		t.Errorf("another guest is shown %q", got)
	}
	_, err := o.Past(ctx, "a", old)
	is(t, "another guest's old content", err, "notFound")
	for _, w := range []vfs.Undo{{ID: 1}, {ID: 5}, {ID: 7}, {Last: 1}, {SinceMs: 1}} {
		_, err = o.Undo(ctx, w)
		is(t, "another guest's undo", err, "notFound")
	}
	if got := shownPast(t, d.SubDir("in")); got != "b>\n" {
		t.Errorf("below a directory history shows %q", got)
	}
	_, err = d.SubDir("in").Past(ctx, "../a", old)
	is(t, "a path up", err, "invalid")
	_, err = d.SubDir("in").Past(ctx, "a", old)
	is(t, "not below", err, "notFound")
	n := d.Narrow(client.Write | client.List)
	_, err = n.Past(ctx, "a", old)
	is(t, "old content with the right to write alone", err, "denied")
	_, err = n.Undo(ctx, vfs.Undo{Last: 1})
	is(t, "undo with the right to write alone", err, "denied")
	_, err = n.Undo(ctx, vfs.Undo{Last: 1, DryRun: true})
	is(t, "a dry undo with the right to write alone", err, "denied")
	_, err = d.ReadOnly().Undo(ctx, vfs.Undo{Last: 1})
	is(t, "undo through a view that is read alone", err, "readOnly")
	for _, path := range []string{".env", ".ssh/id", "in/.env"} {
		_, err = d.Past(ctx, path, old)
		is(t, "past of "+path, err, "denied") // whether or not it exists
		for _, s := range []step.Step{
			{Verb: step.Put, Path: path, Data: []byte("x")}, {Verb: step.Remove, Path: path}, {Verb: step.Move, Path: path, To: "m"},
			{Verb: step.Move, Path: "a", To: path}, {Verb: step.Mkdir, Path: path},
		} {
			is(t, "change", d.Change(ctx, []step.Step{s}, true), "denied")
			is(t, "change", d.Change(ctx, []step.Step{s}, false), "denied")
		}
		for _, text := range []string{
			"--- a/" + path + "\n+++ b/" + path + "\n@@ -1 +1 @@\n-older words\n+y\n", "*** Begin Patch\n*** Update File: " + path + "\n@@\n-old word\n+y\n*** End Patch\n",
			"diff --git a/" + path + " b/m\nrename from " + path + "\nrename to m\n", "*** Begin Patch\n*** Delete File: " + path + "\n*** End Patch\n",
		} {
			_, err = d.Patch(ctx, []byte(text), client.PatchOptions{DryRun: true})
			is(t, "patch "+text, err, "denied")
			if strings.Contains(err.Error(), "words") {
				t.Errorf("the refusal of a patch shows %v", err)
			}
		}
	}
	// What somebody else wrote later is never overwritten, however the undo and the write meet.
	for range 10 {
		put(d, "r", "one")
		put(d, "r", "two")
		var both sync.WaitGroup
		both.Go(func() {
			_, err := o.Put(context.Background(), "r", strings.NewReader("theirs"), vfs.If{})
			ok(t, err)
		})
		both.Go(func() { d.Undo(context.Background(), vfs.Undo{Last: 1}) })
		both.Wait()
		b, err := os.ReadFile(filepath.Join(h.served, "r"))
		ok(t, err)
		if string(b) != "theirs" {
			t.Fatalf("an undo made %q of what another guest wrote", b)
		}
		d.Undo(ctx, vfs.Undo{Last: 2})
		b, _ = os.ReadFile(filepath.Join(h.served, "r"))
		if string(b) != "theirs" {
			t.Fatalf("a later undo made %q of what another guest wrote", b)
		}
	}
	// After a lock, and after a revoke, has answered nothing changes.
	turn := d.Turn("t")
	ok(t, ctl.SetWritable(ctx, false))
	_, err = d.Copy(ctx, "a", d, "copied", vfs.If{}, vfs.If{})
	is(t, "copy while locked", err, "readOnly")
	is(t, "change while locked", d.Change(ctx, []step.Step{{Verb: step.Mkdir, Path: "k"}}, false), "readOnly")
	ok(t, ctl.SetWritable(ctx, true))
	var undone sync.WaitGroup
	for range 4 {
		undone.Go(func() {
			for {
				if _, err := d.Undo(context.Background(), vfs.Undo{SinceMs: 1}); vfs.CodeOf(err) == vfs.Revoked {
					return
				}
				if err := d.Change(context.Background(), []step.Step{{Verb: step.Put, Path: "z", Data: []byte("z")}, {Verb: step.Put, Path: "y", Data: []byte("y")}}, false); vfs.CodeOf(err) == vfs.Revoked {
					return
				}
				if _, err := d.Copy(context.Background(), "in", d, "in2", vfs.If{}, vfs.If{}); vfs.CodeOf(err) == vfs.Revoked {
					return
				}
			}
		})
	}
	ok(t, ctl.Revoke(ctx))
	before := names(t, h.served)
	undone.Wait()
	if after := names(t, h.served); strings.Join(before, " ") != strings.Join(after, " ") {
		t.Errorf("after a revoke had answered, %q became %q", before, after)
	}
	for what, err := range map[string]error{
		"turn": func() error { _, err := turn.Stat(ctx); return err }(), "history": func() error { _, err := d.History(ctx, vfs.PastQuery{}); return err }(),
		"past": func() error { _, err := d.Past(ctx, "a", old); return err }(),
	} {
		is(t, what, err, "revoked")
	}
}

// A host withholds, or asks about, what it did not when it was changed. The history shows neither the names nor what was there.
func TestAttackPastUnderNewRules(t *testing.T) {
	p := newPlace(t)
	ctx := t.Context()
	file := filepath.Join(p.base, "capd.yaml")
	serve := func(more string) *hostProcess {
		ok(t, os.WriteFile(file, []byte("mounts:\n- path: project\n  url: physical:"+p.served+"\n"+more+"\nguests:\n- name: one\n  path: project\n"), 0o600))
		return served(p, execCapd(t, "serve", "--config", file, "--state", p.state))
	}
	old := vfs.Version(sha256.Sum256([]byte("old words")))
	h := serve("  deny: []")
	loc := h.locator
	d := dial(t, loc).Dir(ctx)
	ok(t, os.Mkdir(filepath.Join(p.served, "gone"), 0o755))
	withheld := []string{".env", "gone/.env"}
	for _, path := range append(withheld, "asked", "plain") {
		ok(t, os.WriteFile(filepath.Join(p.served, path), []byte("old words"), 0o600))
		ok(t, d.Change(ctx, []step.Step{{Verb: step.Put, Path: path, Data: []byte("new words")}, {Verb: step.Put, Path: strings.TrimSuffix(path, ".env") + "beside", Data: nil}}, false))
	}
	_, err := d.Past(ctx, ".env", old)
	is(t, "past of what nothing withholds", err, "ok")
	ok(t, os.RemoveAll(filepath.Join(p.served, "gone")))
	h.stop()

	serve("rules:\n- {effect: ask, operations: [read], patterns: ['project/asked']}")
	d = dial(t, loc).Dir(ctx)
	if got := shownPast(t, d); strings.Contains(got, ".env") || !strings.Contains(got, "asked") {
		t.Errorf("history shows %q", got)
	}
	page, err := d.History(ctx, vfs.PastQuery{})
	ok(t, err)
	for _, e := range page.Entries {
		dry, err := d.Undo(ctx, vfs.Undo{ID: e.ID, DryRun: true})
		for _, s := range dry.Steps {
			if strings.Contains(s.Path, ".env") {
				t.Errorf("a preview names %q", s.Path)
			}
		}
		if err != nil && strings.Contains(err.Error(), ".env") {
			t.Errorf("a refusal says %v", err)
		}
		for _, c := range e.Changes {
			if c.Path == "asked" && (!c.Before.IsZero() || !c.After.IsZero()) {
				t.Error("history shows the version of what may be read only with an approval")
			}
		}
	}
	for path, want := range map[string]string{".env": "denied", "gone/.env": "denied", "asked": "askDenied", "plain": "ok"} {
		_, err = d.Past(ctx, path, old)
		is(t, "past of "+path, err, want)
	}
}

// stop ends the host before the test does.
func (h *hostProcess) stop() {
	h.Helper()
	h.end()
	h.cmd = nil
}
