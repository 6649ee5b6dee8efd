package cap_test

import (
	"context"
	"strings"
	"testing"

	schema "capd/capnp"
	"capd/client"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

var dirTree = vfstest.Tree{"f": {Data: "f"}, "d/g": {Data: "g"}, "empty": {Dir: true}, "l": {Link: "d/g"}, "up": {Link: "../x"}}

// TestDirErrors has the typical errors of each method that takes a path.
func TestDirErrors(t *testing.T) {
	ctx := t.Context()
	_, _, d := guest(t, dirTree)
	ro := d.ReadOnly()
	lent, r := d.Revocable()
	ok(t, r.Revoke(ctx))
	for name, do := range map[string]func(d *client.Dir, path string) error{
		"openFile":   func(d *client.Dir, p string) error { _, err := d.OpenFile(p).Stat(ctx); return err },
		"openDir":    func(d *client.Dir, p string) error { return openDir(t, d, p) },
		"subDir":     func(d *client.Dir, p string) error { _, err := d.SubDir(p).Stat(ctx); return err },
		"walk":       func(d *client.Dir, p string) error { _, err := d.Walk(ctx, p, true); return err },
		"put":        func(d *client.Dir, p string) error { return putRaw(t, d, p, nil) },
		"createDir":  func(d *client.Dir, p string) error { _, err := d.CreateDir(ctx, p); return err },
		"createFile": func(d *client.Dir, p string) error { _, err := d.CreateFile(ctx, p); return err },
		"remove":     func(d *client.Dir, p string) error { return d.RemovePath(ctx, p, vfs.If{}) },
		"move":       func(d *client.Dir, p string) error { return d.Move(ctx, p, d, "moved", vfs.If{}, vfs.If{}) },
	} {
		changes := strings.Contains("put createDir createFile remove move", name)
		for path, want := range map[string]vfs.Code{
			"missing/x": vfs.NotFound, "f/x": vfs.NotDir, "../x": vfs.Invalid, "/f": vfs.Invalid, "": vfs.Invalid, "d//g": vfs.Invalid,
			"up/x": vfs.Outside, strings.Repeat("d/", 200) + "x": vfs.Limit,
		} {
			is(t, name+"("+path[:min(len(path), 20)]+")", do(d, path), want)
		}
		is(t, name+" on what was revoked", do(lent, "f"), vfs.Revoked)
		if changes {
			is(t, name+" on what is read-only", do(ro, "d/g"), vfs.ReadOnly)
		}
	}
	for what, c := range map[string]struct {
		err  error
		want vfs.Code
	}{
		"openFile of a directory":   {func() error { _, err := d.OpenFile("d").Stat(ctx); return err }(), vfs.IsDir},
		"subDir of a file":          {func() error { _, err := d.SubDir("f").Stat(ctx); return err }(), vfs.NotDir},
		"openDir of a file":         {openDir(t, d, "f"), vfs.NotDir},
		"createFile on a link":      {func() error { _, err := d.CreateFile(ctx, "l"); return err }(), vfs.Exists},
		"createDir on a file":       {func() error { _, err := d.CreateDir(ctx, "f"); return err }(), vfs.Exists},
		"remove of what is full":    {d.RemovePath(ctx, "d", vfs.If{}), vfs.NotEmpty},
		"remove with a version":     {d.RemovePath(ctx, "f", vfs.If{Is: vfs.Version{1}}), vfs.Conflict},
		"remove of a dir, if it is": {d.RemovePath(ctx, "empty", vfs.If{Is: vfs.Version{1}}), vfs.Invalid},
		"get of a path":             {call(t, d.Cap(), schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error { return p.SetName("d/g") }, nil), vfs.Invalid},
		"put on a directory":        {putRaw(t, d, "d", nil), vfs.IsDir},
	} {
		is(t, what, c.err, c.want)
	}
	reads(t, d, "f", "f")
	reads(t, d, "l", "g")
}

func openDir(t *testing.T, d *client.Dir, path string) error {
	t.Helper()
	return call(t, d.Cap(), schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath(path) },
		func(r schema.Dir_openDir_Results, caps *vat.Caps) error {
			if caps.Get(r.Dir()) == nil {
				t.Errorf("openDir(%q) answers no Dir", path)
			}
			return nil
		})
}

func TestDirMethods(t *testing.T) {
	ctx := t.Context()
	_, _, d := guest(t, dirTree)
	ok(t, openDir(t, d, "d"))
	sub, err := d.CreateDir(ctx, "d/new")
	ok(t, err)
	f, err := sub.CreateFile(ctx, "file")
	ok(t, err)
	_, err = f.WriteText(ctx, "text", vfs.If{})
	ok(t, err)
	reads(t, d, "d/new/file", "text")
	_, err = d.Put(ctx, "l", strings.NewReader("through the link"), vfs.If{})
	ok(t, err)
	reads(t, d, "d/g", "through the link")
	is(t, "put on a link, not followed", call(t, d.Cap(), schema.Dir_put, func(p schema.Dir_put_Params, _ *vat.Caps) error {
		p.SetNoFollow(true)
		return p.SetPath("l")
	}, nil), vfs.NotRegular)
	for path, want := range map[string]string{"l": "d/g", "up": ""} {
		ok(t, call(t, d.Cap(), schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error { return p.SetName(path) },
			func(r schema.Dir_get_Results, _ *vat.Caps) error {
				n, err := r.Node()
				ok(t, err)
				l, err := n.Link()
				ok(t, err)
				target, err := l.Target()
				if n.Which() != schema.Node_Which_link || target != want || l.Outside() != (want == "") {
					t.Errorf("get(%q): %q, outside: %v", path, target, l.Outside())
				}
				return err
			}))
	}
	// Each interface explains itself, and each of its methods.
	c := []func(string) (string, error){
		func(m string) (string, error) { return d.Help(ctx, m) },
		func(m string) (string, error) { return f.Help(ctx, m) },
	}
	for i, methods := range []string{"list glob put", "readText stream"} {
		for _, m := range append(strings.Fields(methods), "") {
			text, err := c[i](m)
			if ok(t, err); text == "" {
				t.Errorf("help(%q) is empty", m)
			}
		}
		_, err := c[i]("nothing")
		is(t, "help about what is not there", err, vfs.NotFound)
	}
}

func TestHelpOfTheRest(t *testing.T) {
	ctx := context.Background()
	_, c, d := guest(t, dirTree)
	text, err := c.Help(ctx, "share")
	if ok(t, err); text == "" {
		t.Error("Session.help(share) is empty")
	}
	_, err = c.Help(ctx, "nothing")
	is(t, "help about what is not there", err, vfs.NotFound)
	a := vat.Send(ctx, d.Cap(), schema.Dir_revocable, nil)
	defer a.Release()
	r := a.Cap(schema.Dir_revocable_Results_revoker)
	defer r.Release()
	ok(t, call(t, r, schema.Revoker_help, nil, nil))
	ok(t, call(t, stage(t, d, "f", vfs.If{}), schema.Writer_help, nil, nil))
}
