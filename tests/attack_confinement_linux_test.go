package tests

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

// Confinement: a Dir stays what it was given for, whatever happens to the
// directory. Nothing leads from it to what was not given.
func TestAttackConfinement(t *testing.T) {
	t.Parallel()
	h := serve(t)
	held := func(s *attackDir) { s.mkdir("held/deep"); s.write("held/f", "f"); s.write("held/bait", "b") }
	for _, a := range []attack{
		{n: 35, name: "held Dir moved outside", setup: held, hold: "held", event: func(s *attackDir) {
			ok(s.TB, os.Rename(s.path("held"), filepath.Join(s.outside, filepath.Base(s.dir))))
		}, tries: []attempt{
			{ops: "get, " + pathwise, path: "f", want: "stale"},
			{ops: "list, createFile, createDir, put, stage", path: "deep", want: "stale"},
			{ops: "glob", path: "**", want: "stale"},
		}},
		{n: 35, name: "held Dir moved within", setup: held, hold: "held", event: func(s *attackDir) {
			ok(s.TB, os.Rename(s.path("held"), s.path("other")))
		}, tries: []attempt{{ops: "get, " + pathwise, path: "f", want: "stale"}}},
		{n: 35, name: "held Dir's parent moved outside", setup: held, hold: "held/deep", event: func(s *attackDir) {
			ok(s.TB, os.Rename(s.path("held"), filepath.Join(s.outside, filepath.Base(s.dir))))
		}, tries: []attempt{{ops: "get, " + creates, path: "f", want: "stale"}}},
		{n: 35, name: "held Dir replaced by a link", setup: held, hold: "held", event: func(s *attackDir) {
			ok(s.TB, os.Rename(s.path("held"), s.path("other")))
			s.link("../../outside", "held")
		}, tries: []attempt{{ops: "get, " + pathwise, path: "f", want: "stale"}}},
		{n: 36, name: "held Dir removed", setup: held, hold: "held", event: func(s *attackDir) { ok(s.TB, os.RemoveAll(s.path("held"))) }, tries: []attempt{
			{ops: "get, " + pathwise, path: "f", want: "stale"},
		}},
		{n: 36, name: "held Dir removed and made again", setup: func(s *attackDir) { s.mkdir("held") }, hold: "held", event: remake, tries: []attempt{
			{ops: "get, " + pathwise, path: "f", want: "stale"},
			{ops: "glob", path: "**", want: "stale"},
		}},
		{n: 40, name: "what is staged", setup: func(s *attackDir) { s.mkdir("d") }, tries: []attempt{
			{ops: "list", path: "d", want: "ok", answer: says("")},
			{ops: "put, stage", path: "d/f", want: "ok"},
			{ops: opens + ", " + reads + ", remove, move from", path: ".capd-staging-" + strings.Repeat("0", 32), want: "notFound"},
			{ops: creates, path: ".capd-staging-" + strings.Repeat("0", 32), want: "invalid"},
			{ops: "put, createDir, move to", path: ".CAPD-staging-" + strings.Repeat("0", 32), want: "invalid"},
		}},
		{n: 42, name: "into itself", setup: func(s *attackDir) { ok(s.TB, os.Remove(s.path("bait"))); s.mkdir("bait/deep") }, tries: []attempt{
			{ops: "move to", path: "bait/x", want: "invalid"},
			{ops: "move to", path: "bait/deep/x", want: "invalid"},
		}},
	} {
		h.run(t, a)
	}
	t.Run("40 what is staged, while it is", func(t *testing.T) { staged(t, h) })
	t.Run("what a Dir does not answer", func(t *testing.T) { noControl(t, h) })
}

// remake removes the held directory and makes it again, until the new one has the
// same inode number or the file system has shown that it does not reuse numbers.
func remake(s *attackDir) {
	var before, after unix.Stat_t
	ok(s.TB, unix.Lstat(s.path("held"), &before))
	for range 100 {
		ok(s.TB, os.Remove(s.path("held")))
		s.mkdir("held")
		ok(s.TB, unix.Lstat(s.path("held"), &after))
		if before.Ino == after.Ino {
			break
		}
	}
	s.write("held/f", secret)
	s.write("held/bait", "b")
}

// staged: while a writer holds bytes, their staging directory is on the disk but
// in no Dir.
func staged(t *testing.T, h *hostProcess) {
	ctx := context.Background()
	root := dial(t, h.locator).Dir(ctx).SubDir("project")
	a := vat.Send(ctx, root.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath("big") })
	defer a.Release()
	w := a.Cap(schema.Dir_stage_Results_writer)
	defer w.Release()
	for range 8 {
		ok(t, vat.Do(ctx, w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error { return p.SetData(make([]byte, 256<<10)) }, nil))
	}
	if !waitFor(patience, func() bool { return len(h.staging()) > 0 }) {
		t.Fatal("nothing is staged")
	}
	attacks.add(t, toll{cases: 1, names: 1})
	name := filepath.Base(h.staging()[0])
	for _, op := range []string{"get", "walk", "openDir", "subDir", "list", "remove", "move from"} {
		attacks.tried(t, false)
		if _, err := try(ctx, op, root.Cap(), name); !is(t, op, err, "notFound") && err == nil {
			attacks.escape(t)
		}
	}
	for _, op := range []string{"glob"} {
		attacks.tried(t, false)
		if text, err := try(ctx, op, root.Cap(), "**"); err != nil || strings.Contains(text, "staging") {
			t.Errorf("%s answers %q, %v", op, text, err)
		}
	}
	attacks.tried(t, false)
	if text, err := list(ctx, root.Cap()); err != nil || strings.Contains(text, "staging") {
		t.Errorf("list answers %q, %v", text, err)
	}
}

// noControl: a guest cannot get what belongs to the host.
func noControl(t *testing.T, h *hostProcess) {
	ctx := context.Background()
	c := dial(t, h.locator, h.base)
	d := c.Dir(ctx)
	for what, err := range map[string]error{
		"revoke":      vat.Do(ctx, d.Cap(), schema.DirControl_revoke, nil, nil),
		"setWritable": vat.Do(ctx, d.Cap(), schema.DirControl_setWritable, nil, nil),
		"getChild":    vat.Do(ctx, d.Cap(), schema.DirControl_getChild, nil, nil),
		"console":     vat.Do(ctx, d.Cap(), schema.Console_list, nil, nil),
		"restore":     vat.Do(ctx, d.Cap(), schema.Session_restore, nil, nil),
	} {
		is(t, what+" of a Dir", wire.Decode(err), "unsupported")
	}
	// A capability of the guest's own cannot be shared, moved to or called.
	called := false
	mine := vat.Serve(vat.NewTable(vat.Handle(schema.Dir_list, func(*bool, vat.Call[schema.Dir_list_Params, schema.Dir_list_Results]) error {
		called = true
		return nil
	}), vat.Handle(schema.Dir_put, func(*bool, vat.Call[schema.Dir_put_Params, schema.Dir_put_Results]) error {
		called = true
		return nil
	})), &called)
	defer mine.Release()
	is(t, "move to a guest's own Dir", wire.Decode(move(ctx, d.Cap(), "project/x", mine, "x")), "unsupported")
	if called {
		t.Error("the guest's own Dir was called")
	}
	if _, err := h.console().Control(ctx, "g1"); err != nil {
		t.Errorf("the host's own way to a control: %v", err)
	}
}
