package cap_test

import (
	"fmt"
	"testing"

	"capd/backend/memory"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
)

// The stat of a Dir has the last name of the path by which it was reached, as that of a
// File has.
func TestDirName(t *testing.T) {
	_, c, d := guest(t, vfstest.Tree{"a/b/f": {Data: "f"}, "link": {Link: "a/b"}})
	name := func(c *vat.Cap) (name string) {
		ok(t, call(t, c, schema.Dir_stat, nil, func(r schema.Dir_stat_Results, _ *vat.Caps) error {
			st, err := r.Stat()
			ok(t, err)
			name, err = st.Name()
			return err
		}))
		return name
	}
	ctx := t.Context()
	made, err := d.CreateDir(ctx, "a/new")
	ok(t, err)
	sub := d.SubDir("a/b")
	revocable, _ := sub.Revocable()
	shared, _, err := c.Share(ctx, sub)
	ok(t, err)
	walked, err := vfs.Walk(ctx, d, "link")
	ok(t, err)
	got, err := d.Lookup(ctx, "a")
	ok(t, err)
	conn, err := client.Dial(ctx, shared)
	ok(t, err)
	defer conn.Close()
	other := conn.Dir(ctx)
	for what, c := range map[string]struct {
		d    interface{ Cap() *vat.Cap }
		name string
	}{
		"a grant": {d, ""}, "createDir": {made, "new"}, "subDir": {sub, "b"}, "readOnly": {sub.ReadOnly(), "b"},
		"revocable": {revocable, "b"}, "walk": {walked.(interface{ Cap() *vat.Cap }), "link"}, "get": {got.(interface{ Cap() *vat.Cap }), "a"},
		"what was shared": {other, ""},
	} {
		if name := name(c.d.Cap()); name != c.name {
			t.Errorf("%s: %q, want %q", what, name, c.name)
		}
	}
}

// eof is set if a read found the end, but not if it returned exactly the rest.
func TestEof(t *testing.T) {
	_, _, d := guest(t, vfstest.Tree{"f": {Data: "hello"}, "empty": {Data: ""}})
	for _, c := range []struct {
		file   string
		offset uint64
		length uint32
		want   string
		eof    bool
	}{
		{"f", 0, 5, "hello", false}, {"f", 0, 6, "hello", true}, {"f", 5, 1, "", true}, {"f", 5, 0, "", true}, {"f", 3, 2, "lo", false},
		{"f", 3, 3, "lo", true}, {"f", 9, 3, "", true}, {"f", 0, 0, "", false}, {"empty", 0, 1, "", true}, {"empty", 0, 0, "", true},
	} {
		ok(t, call(t, d.OpenFile(c.file).Cap(), schema.File_read, func(p schema.File_read_Params, _ *vat.Caps) error {
			p.SetOffset(c.offset)
			p.SetLength(c.length)
			return nil
		}, func(r schema.File_read_Results, _ *vat.Caps) error {
			b, err := r.Data()
			if string(b) != c.want || r.Eof() != c.eof {
				t.Errorf("%s, %d bytes from %d: %q, eof %v; want %q, %v", c.file, c.length, c.offset, b, r.Eof(), c.want, c.eof)
			}
			return err
		}))
	}
}

// What a control says is possible really is. It is not if the grant, or the store, is
// read-only.
func TestEffective(t *testing.T) {
	ctx := t.Context()
	fixed := memory.New(memory.Limits{})
	vfstest.Fill(t, fixed.Root(), vfstest.Tree{"d/f": {Data: "f"}}, nil, nil)
	ns := namespace.New()
	defer ns.Close()
	ok(t, ns.Mount("fixed", fixed.Root(), namespace.Options{ReadOnly: true}))
	ok(t, ns.Mount("m", scene.InMemory(t, vfstest.Tree{"d/f": {Data: "f"}, "f": {Data: "f"}}), namespace.Options{}))
	s := serve(t, ns.Root(), nil)
	con := consoleOf(t, s)
	for i, c := range []struct {
		path     string
		readOnly bool
		child    string
		want     bool
	}{
		{"m", false, "", true}, {"m", true, "", false}, {"m", false, "d", true}, {"m", true, "d", false}, {"m", true, "f", false},
		{"m/f", false, "", true}, {"m/f", true, "", false}, {"fixed", false, "", false}, {"fixed", false, "d", false}, {"fixed/d/f", false, "", false},
		{"", false, "", true}, {"", false, "m", true}, {"", false, "fixed", false},
	} {
		loc, g := s.Grant(t, fmt.Sprintf("agent-%d", i), c.path, c.readOnly)
		ctl, err := con.Control(ctx, g.ID)
		ok(t, err)
		defer ctl.Close()
		if c.child != "" {
			ctl, err = ctl.Child(ctx, c.child)
			ok(t, err)
			defer ctl.Close()
		}
		if own, effective, err := ctl.Writable(ctx); err != nil || !own || effective != c.want {
			t.Errorf("%+v: writable %v, effective %v, %v", c, own, effective, err)
		}
		if c.child != "" || c.path == "" { // the root of a namespace is of no tree
			continue
		}
		n, err := scene.Dial(t, loc).Node(ctx)
		ok(t, err)
		switch n := n.(type) {
		case vfs.Dir:
			_, err = n.Create(ctx, fmt.Sprintf("new-%d", i))
		case vfs.File:
			err = n.Truncate(ctx, 1, vfs.If{})
		}
		if can := wire.Decode(err) == nil; can != c.want {
			t.Errorf("%+v: a change answers %v", c, err)
		}
	}
}
