package cap_test

import (
	"net"
	"testing"

	"capd/client"
	"capd/client/console"
	"capd/operator"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

// consoleOf serves the console of s and connects to it.
func consoleOf(t *testing.T, s *served) *console.Console {
	t.Helper()
	c, err := console.Dial(t.Context(), s.Console(t))
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

var controlTree = vfstest.Tree{"a/b/f": {Data: "f"}, "a/g": {Data: "g"}, "h": {Data: "h"}}

func TestConsole(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, controlTree), nil)
	c := consoleOf(t, s)
	none, err := c.Grants(ctx)
	if ok(t, err); len(none) != 0 {
		t.Errorf("grants before any: %v", none)
	}
	g, line, ctl, err := c.Grant(ctx, "agent", "a", true)
	ok(t, err)
	defer ctl.Close()
	want := operator.Grant{Guest: "agent", Subject: "agent-run:agent", Source: operator.ByOperator, ID: "g1", Path: "a", Mode: operator.ReadOnly, State: operator.Active, Rights: membrane.AllRights &^ membrane.ChangeRights}
	if g != want {
		t.Errorf("granted %+v, want %+v", g, want)
	}
	conn, err := client.Dial(ctx, line)
	ok(t, err)
	defer conn.Close()
	d := conn.Dir(ctx)
	reads(t, d, "g", "g")
	is(t, "a write through a read-only grant", d.Remove(ctx, "g", vfs.If{}), vfs.ReadOnly)
	_, _, _, err = c.Grant(ctx, "agent", "h", false)
	ok(t, err)
	for what, err := range map[string]error{
		"grant of what is missing": func() error { _, _, _, err := c.Grant(ctx, "x", "missing", false); return err }(),
		"revoke of nobody":         func() error { _, err := c.Revoke(ctx, "nobody"); return err }(),
		"set-writable of nobody":   func() error { _, err := c.SetWritable(ctx, "nobody", false); return err }(),
		"control of nothing":       func() error { _, err := c.Control(ctx, "g99"); return err }(),
		"help about nothing":       func() error { _, err := c.Help(ctx, "nothing"); return err }(),
	} {
		is(t, what, err, vfs.NotFound)
	}
	for _, name := range []string{"", "a b", "a/b", "é", "g1", string(make([]byte, 65))} {
		_, _, _, err := c.Grant(ctx, name, "", false)
		is(t, "a guest called "+name, err, vfs.Invalid)
	}
	n, err := c.SetWritable(ctx, "agent", false)
	if ok(t, err); n != 2 {
		t.Errorf("set-writable counts %d", n)
	}
	all, err := c.Grants(ctx)
	ok(t, err)
	if len(all) != 2 || all[0].State != operator.Locked || all[1].State != operator.Locked {
		t.Errorf("locked: %+v", all)
	}
	n, err = c.Revoke(ctx, "g1")
	if ok(t, err); n != 1 {
		t.Errorf("revoke counts %d", n)
	}
	_, err = d.Stat(ctx)
	is(t, "after revoke", err, vfs.Revoked)
	all, err = c.Grants(ctx)
	if ok(t, err); all[0].State != operator.Revoked || all[1].State != operator.Locked {
		t.Errorf("revoked: %+v", all)
	}
	text, err := c.Help(ctx, "grant")
	if ok(t, err); text == "" {
		t.Error("no help")
	}
	for range 1500 { // more than a page
		_, _, err := s.Authority.Grant(ctx, "many", "h", false)
		ok(t, err)
	}
	all, err = c.Grants(ctx)
	if ok(t, err); len(all) != 1502 {
		t.Errorf("%d grants, want 1502", len(all))
	}
}

func TestControls(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, controlTree), nil)
	c := consoleOf(t, s)
	_, line, root, err := c.Grant(ctx, "agent", "", false)
	ok(t, err)
	conn, err := client.Dial(ctx, line)
	ok(t, err)
	defer conn.Close()
	d := conn.Dir(ctx)
	f := d.OpenFile("a/b/f")
	write := func() error { _, err := f.WriteText(ctx, "x", vfs.If{}); return err }
	read := func() error { _, _, err := f.ReadText(ctx); return err }

	a, err := root.Child(ctx, "a")
	ok(t, err)
	b, err := a.Child(ctx, "b")
	ok(t, err)
	file, err := b.Child(ctx, "f")
	ok(t, err)
	_, err = file.Child(ctx, "x")
	is(t, "a child of a file", err, vfs.NotDir)
	for name, want := range map[string]vfs.Code{"missing": vfs.NotFound, "..": vfs.Invalid, "A": vfs.NotFound, "": vfs.Invalid, "b/f": vfs.Invalid} {
		_, err = a.Child(ctx, name)
		is(t, "the child "+name, err, want)
	}
	for what, ctl := range map[string]*console.Control{"root": root, "a": a, "b": b, "file": file} {
		ok(t, ctl.SetWritable(ctx, false))
		is(t, "a write while locked at "+what, write(), vfs.ReadOnly)
		own, effective, err := ctl.Writable(ctx)
		if ok(t, err); own || effective {
			t.Errorf("Writable at %s: %v, %v", what, own, effective)
		}
		own, effective, err = file.Writable(ctx)
		if ok(t, err); own != (ctl != file) || effective {
			t.Errorf("Writable of the file, locked at %s: %v, %v", what, own, effective)
		}
		ok(t, read())
		ok(t, ctl.SetWritable(ctx, true))
		is(t, "a write after unlocking", write(), "")
		ok(t, ctl.SetReadable(ctx, false))
		is(t, "a read while it is not readable at "+what, read(), vfs.Denied)
		own, effective, err = ctl.Readable(ctx)
		if ok(t, err); own || effective {
			t.Errorf("Readable at %s: %v, %v", what, own, effective)
		}
		ok(t, ctl.SetReadable(ctx, true))
		is(t, "a read when it is readable again", read(), "")
	}
	is(t, "rename of what leads to what is controlled", d.Rename(ctx, "a", d, "z", vfs.If{}, vfs.If{}), vfs.Busy)
	ok(t, file.Revoke(ctx))
	ok(t, file.Revoke(ctx))
	is(t, "a read of what was revoked", read(), vfs.Revoked)
	reads(t, d, "a/g", "g")
	for _, ctl := range []*console.Control{file, b, a} {
		ok(t, ctl.Close())
	}
	ok(t, root.Revoke(ctx))
	_, err = d.Stat(ctx)
	is(t, "after all", err, vfs.Revoked)
}

// The control of a grant of one file.
func TestFileControl(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, controlTree), nil)
	c := consoleOf(t, s)
	g, line, _, err := c.Grant(ctx, "agent", "h", false)
	ok(t, err)
	ctl, err := c.Control(ctx, g.ID)
	ok(t, err)
	conn, err := client.Dial(ctx, line)
	ok(t, err)
	defer conn.Close()
	n, err := conn.Node(ctx)
	ok(t, err)
	f := n.(*client.File)
	ok(t, ctl.SetWritable(ctx, false))
	_, err = f.Append(ctx, []byte("x"), vfs.If{})
	is(t, "append while locked", err, vfs.ReadOnly)
	ok(t, ctl.Revoke(ctx))
	_, err = f.Stat(ctx)
	is(t, "stat after revoke", err, vfs.Revoked)
}

// A host that makes no locators grants nothing, and says so.
func TestNoLocators(t *testing.T) {
	s := serve(t, scene.InMemory(t, controlTree), nil)
	path := scene.Socket(t)
	l, err := net.Listen("unix", path)
	ok(t, err)
	defer l.Close()
	go s.Server.ServeConsole(l, nil)
	c, err := console.Dial(t.Context(), path)
	ok(t, err)
	defer c.Close()
	_, _, _, err = c.Grant(t.Context(), "agent", "", false)
	is(t, "a grant", err, vfs.Unsupported)
	all, err := c.Grants(t.Context())
	if ok(t, err); len(all) != 0 {
		t.Errorf("there are grants: %v", all)
	}
}
