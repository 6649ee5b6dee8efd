package cap_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/operator"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
	"capd/vfs/lines"
	"capd/vfs/step"
	"capd/vfs/vfstest"
)

// needing is what a method of Dir or File needs. The tables in docs/semantics.md are made of these.
type needing struct {
	method  string
	rights  client.Rights
	besides string // for people
	do      func(ctx context.Context, d *client.Dir, f *client.File) error
}

const conditional = "a condition on a version: read"

// onePatch changes f and makes new/f.
const onePatch = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-content\n+patched\n--- /dev/null\n+++ b/new/f\n@@ -0,0 +1 @@\n+new\n"

// noEntries is a zip file that holds nothing.
const noEntries = "PK\x05\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

var thisVersion = vfs.If{Is: sha256.Sum256([]byte("content"))}

var dirNeeds = []needing{
	{"list", client.List, "`withStat`: metadata", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return failed(d.Entries(ctx, false))
	}},
	{"get", 0, "what is shown of the node besides its type: metadata", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return opened(d.Lookup(ctx, "f"))
	}},
	{"walk", 0, "likewise; `statOnly`: metadata", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return opened(d.Walk(ctx, "sub/l", true))
	}},
	{"openDir", 0, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return wire.Do(ctx, d.Cap(), schema.Dir_openDir, func(p schema.Dir_openDir_Params, _ *vat.Caps) error { return p.SetPath("sub") }, nil)
	}},
	{"openFile", 0, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return d.OpenFile("sub/g").Cap().Settle(ctx)
	}},
	{"put", client.Write, conditional, func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Put(ctx, "new", strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"stage", client.Write, conditional, func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return wire.Do(ctx, d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath("new") }, nil)
	}},
	{"stat", client.Metadata, "", func(ctx context.Context, d *client.Dir, _ *client.File) error { _, err := d.Stat(ctx); return err }},
	{"readMany", client.Read, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		for r, err := range d.ReadMany(ctx, []string{"f"}) {
			return cmp.Or(err, r.Err)
		}
		return nil
	}},
	{"changedSince", client.Read, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		for c, err := range d.ChangedSince(ctx, []client.Known{{Path: "f"}}) {
			return cmp.Or(err, c.Err)
		}
		return nil
	}},
	{"changes", client.Watch, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Changes(ctx, vfs.ChangesQuery{})
		return err
	}},
	{"tree", client.List, "`withStat`: metadata; ignore files that count: read", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Tree(ctx, "", client.TreeOptions{})
		return err
	}},
	{"history", client.Read, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.History(ctx, vfs.PastQuery{})
		return err
	}},
	{"undo", client.Read, "what the inverse changes need", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Undo(ctx, vfs.Undo{SinceMs: 1, DryRun: true})
		if vfs.CodeOf(err) == vfs.NotFound {
			return nil // nothing was changed
		}
		return err
	}},
	{"readPast", client.Read, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Past(ctx, "f", thisVersion.Is)
		if vfs.CodeOf(err) == vfs.NotFound {
			return nil // likewise
		}
		return err
	}},
	{"turn", 0, "", func(ctx context.Context, d *client.Dir, _ *client.File) error { return d.Turn("t").Cap().Settle(ctx) }},
	{"glob", client.List, "ignore files that count: read", func(ctx context.Context, d *client.Dir, _ *client.File) error { return failed(d.Glob(ctx, "sub/*")) }},
	{"grep", client.Read | client.List, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return failed(d.Grep(ctx, client.Grep{Path: "sub", Pattern: "x"}))
	}},
	{"createDir", client.Write, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.CreateDir(ctx, "new")
		return err
	}},
	{"createFile", client.Write, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.CreateFile(ctx, "new")
		return err
	}},
	{"symlink", client.Write | client.Link, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return d.MakeLink(ctx, "new", "sub/g")
	}},
	{"remove", client.Delete, conditional, func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return d.RemovePath(ctx, "f", vfs.If{})
	}},
	{"move", client.Move | client.Read | client.Write, "read is needed at the source alone, and write at the target; a condition on the target's version: read there; `replace`: delete at the target",
		func(ctx context.Context, d *client.Dir, _ *client.File) error {
			return d.Move(ctx, "f", d, "sub/f", vfs.If{}, vfs.If{})
		}},
	{"temp", client.Write, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		tmp := d.Temp()
		defer tmp.Close()
		_, err := tmp.Rights(ctx)
		return err
	}},
	{"extract", client.Read | client.Write, "read is needed of the archive alone, and write at the target; executable files in a directory that is there: metadata there",
		func(ctx context.Context, d *client.Dir, _ *client.File) error {
			_, err := d.Extract(ctx, "z.zip", d, "sub/out")
			return err
		}},
	{"copy", client.Read | client.Write, "of a directory: list; read is needed at the source alone, and write at the target; a condition on the target's version: read there; `replace`: delete at the target",
		func(ctx context.Context, d *client.Dir, _ *client.File) error {
			_, err := d.Copy(ctx, "f", d, "sub/f", vfs.If{}, vfs.If{})
			return err
		}},
	{"archive", client.Archive | client.List | client.Read | client.Metadata, "", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Archive(ctx, "sub", "tar", new(strings.Builder))
		return err
	}},
	{"patch", client.Read | client.Write, "delete, for what is removed or renamed; metadata, for a changed executable bit", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		_, err := d.Patch(ctx, []byte(onePatch), client.PatchOptions{})
		return err
	}},
	{"change", client.Read | client.Write, "of a change of a file; each step as the call by itself, and read for put unless the condition is absent", func(ctx context.Context, d *client.Dir, _ *client.File) error {
		return d.Change(ctx, []step.Step{{Path: "f", Data: []byte("changed")}}, false)
	}},
}

var fileNeeds = []needing{
	{"readText", client.Read, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, _, err := f.ReadText(ctx)
		return err
	}},
	{"readBytes", client.Read, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, _, err := f.ReadBytes(ctx)
		return err
	}},
	{"readLines", client.Read, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.ReadLines(ctx, lines.Query{})
		return err
	}},
	{"read", client.Read, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.ReadAt(ctx, make([]byte, 1), 0)
		return err
	}},
	{"stream", client.Read, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.Stream(ctx, new(strings.Builder), 0, 0)
		return err
	}},
	{"writeText", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.WriteText(ctx, "x", vfs.If{})
		return err
	}},
	{"writeBytes", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.Replace(ctx, strings.NewReader("x"), vfs.If{})
		return err
	}},
	{"stage", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		return wire.Do(ctx, f.Cap(), schema.File_stage, nil, nil)
	}},
	{"edit", client.Read | client.Write, "", func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.Edit(ctx, editing.Request{Edits: []edit.Edit{{Old: []byte("content"), New: []byte("x")}}})
		return err
	}},
	{"write", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.WriteAt(ctx, []byte("x"), 0, vfs.If{})
		return err
	}},
	{"append", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		_, err := f.Append(ctx, []byte("x"), vfs.If{})
		return err
	}},
	{"truncate", client.Write, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error { return f.Truncate(ctx, 1, vfs.If{}) }},
	{"setAttributes", client.Write | client.Metadata, conditional, func(ctx context.Context, _ *client.Dir, f *client.File) error {
		return f.SetAttributes(ctx, vfs.Attributes{Exec: new(true)}, vfs.If{})
	}},
	{"sync", 0, "read or write", func(ctx context.Context, _ *client.Dir, f *client.File) error { return f.Sync(ctx) }},
	{"stat", client.Metadata, "`withVersion`: read", func(ctx context.Context, _ *client.Dir, f *client.File) error { _, err := f.Stat(ctx); return err }},
}

// alwaysThere are the methods of a Dir and a File that need no right.
var alwaysThere = []string{"readOnly", "subDir", "revocable", "help", "narrow", "rights", "explain"}

func opened(n vfs.Node, err error) error {
	if err == nil {
		n.Close()
	}
	return err
}

func failed[T any](all func(func(T, error) bool)) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// lacking is what a call answers without the rights in lacks.
func lacking(lacks client.Rights) vfs.Code {
	switch {
	case lacks == 0:
		return ""
	case lacks&^(client.Write|client.Delete|client.Move) != 0:
		return vfs.Denied
	}
	return vfs.ReadOnly
}

// TestRightsOverTheWire: each method is refused without one of the rights that it needs, and needs no other.
func TestRightsOverTheWire(t *testing.T) {
	ctx := t.Context()
	h, _, _ := guest(t, nil)
	loc, _ := h.GrantOn(t, "linker", "", operator.Terms{Links: true})
	d := scene.Dial(t, loc).Dir(context.Background())
	made := 0
	try := func(n needing, keep client.Rights) error {
		made++
		at, err := d.CreateDir(ctx, fmt.Sprint("t", made))
		ok(t, err)
		defer at.Close()
		_, err = at.Put(ctx, "f", strings.NewReader("content"), vfs.If{})
		ok(t, err)
		sub, err := at.CreateDir(ctx, "sub")
		ok(t, err)
		defer sub.Close()
		for _, name := range []string{"g", "l"} {
			_, err = sub.Put(ctx, name, strings.NewReader(name), vfs.If{})
			ok(t, err)
		}
		_, err = at.Put(ctx, "z.zip", strings.NewReader(noEntries), vfs.If{})
		ok(t, err)
		less := at.Narrow(keep)
		defer less.Close()
		if got, err := less.Rights(ctx); err != nil || got != keep {
			t.Errorf("narrow(%v) has the rights %v, %v", keep, got, err)
		}
		f := less.OpenFile("f")
		defer f.Close()
		return n.do(ctx, less, f)
	}
	for _, n := range slices.Concat(dirNeeds, fileNeeds) {
		if n.method == "sync" {
			is(t, "sync with neither", try(n, client.EveryRight&^(client.Read|client.Write)), vfs.Denied)
			n.rights = client.Read
			is(t, "sync", try(n, n.rights), "")
			continue
		}
		is(t, n.method+" with nothing else", try(n, n.rights), "")
		for r := client.Read; r <= client.Link; r <<= 1 {
			is(t, fmt.Sprintf("%s without %v", n.method, r), try(n, client.EveryRight&^r), lacking(r&n.rights))
		}
	}
}

// TestRightsAreDocumented: docs/semantics.md has what the methods need, and leaves none out.
func TestRightsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/semantics.md")
	ok(t, err)
	for iface, all := range map[string][]needing{"Dir": dirNeeds, "File": fileNeeds} {
		var want strings.Builder
		fmt.Fprintf(&want, "| %s | rights | besides |\n|---|---|---|\n", iface)
		methods := slices.Clone(alwaysThere)
		for _, n := range all {
			needs := strings.Join(n.rights.Names(), ", ")
			if needs == "" {
				needs = "none"
			}
			fmt.Fprintf(&want, "| `%s` | %s | %s |\n", n.method, needs, n.besides)
			methods = append(methods, n.method)
		}
		if !strings.Contains(string(text), want.String()) {
			t.Errorf("docs/semantics.md needs this table:\n%s", want.String())
		}
		for _, i := range schema.Interfaces {
			for _, m := range i.Methods {
				if i.Name == iface && !slices.Contains(methods, m) {
					t.Errorf("%s.%s: nobody says which right it needs", iface, m)
				}
			}
		}
	}
}

// TestWithoutMetadata: what is answered without the right to metadata shows types and names alone.
func TestWithoutMetadata(t *testing.T) {
	ctx := t.Context()
	_, _, full := guest(t, vfstest.Tree{"f": {Data: "content", Exec: true}, "l": {Link: "f"}, "d/g": {Data: "x"}})
	d := full.Narrow(client.AllRights &^ client.Metadata)
	for name, typ := range map[string]schema.Type{"f": schema.Type_file, "l": schema.Type_symlink, "d": schema.Type_directory} {
		ok(t, call(t, d.Cap(), schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error { return p.SetName(name) },
			func(r schema.Dir_get_Results, _ *vat.Caps) error {
				n, err := r.Node()
				ok(t, err)
				st, err := n.Stat()
				ok(t, err)
				if got, _ := st.Name(); got != name || st.Type() != typ || st.SizeBytes() != 0 || st.ModifiedMs() != 0 || st.Executable() {
					t.Errorf("get(%s): %v", name, st)
				}
				if n.Which() == schema.Node_Which_link {
					l, err := n.Link()
					if ok(t, err); l.HasTarget() || l.Outside() {
						t.Errorf("the link leads to %v", l)
					}
				}
				return nil
			}))
	}
	n, err := d.Walk(ctx, "l", false)
	ok(t, err)
	_, err = n.(vfs.Link).Target(ctx)
	is(t, "a link's target", err, vfs.Denied)
	_, err = n.Stat(ctx)
	is(t, "a link's stat", err, vfs.Denied)
	_, err = d.WalkStat(ctx, "f", true)
	is(t, "walk, statOnly", err, vfs.Denied)
	is(t, "list, withStat", failed(d.Entries(ctx, true)), vfs.Denied)
	reads(t, d, "l", "content")
}

// TestUnknownRightIsDropped: a right that a later capd has invented is dropped, in both directions of the versions.
func TestUnknownRightIsDropped(t *testing.T) {
	ctx := t.Context()
	_, _, d := guest(t, nil)
	narrow := func(fill func(p schema.Dir_narrow_Params) error) (client.Rights, error) {
		a := vat.Send(ctx, d.Cap(), schema.Dir_narrow, func(p schema.Dir_narrow_Params, _ *vat.Caps) error { return fill(p) })
		defer a.Release()
		less := client.NewDir(a.Cap(schema.Dir_narrow_Results_dir))
		defer less.Close()
		return less.Rights(ctx)
	}
	for _, c := range []struct {
		keep []schema.Right
		want client.Rights
	}{
		{[]schema.Right{schema.Right_read, 9, 10, 15, 16, 64, 65535, schema.Right_list}, client.Read | client.List},
		{[]schema.Right{9}, 0},
		{[]schema.Right{schema.Right_metadata, schema.Right_metadata}, client.Metadata},
		{nil, 0},
	} {
		got, err := narrow(func(p schema.Dir_narrow_Params) error {
			l, err := p.NewKeep(int32(len(c.keep)))
			for i, r := range c.keep {
				l.Set(i, r)
			}
			return err
		})
		if ok(t, err); got != c.want {
			t.Errorf("narrow(%v) has %v, want %v", c.keep, got, c.want)
		}
	}
	got, err := narrow(func(schema.Dir_narrow_Params) error { return nil })
	if ok(t, err); got != 0 {
		t.Errorf("narrow without a list has %v", got)
	}
	for what, l := range map[string]func(*capnp.Segment) (capnp.Ptr, error){
		"too many": func(s *capnp.Segment) (capnp.Ptr, error) { l, err := capnp.NewUInt16List(s, 65); return l.ToPtr(), err },
		"nothings": func(s *capnp.Segment) (capnp.Ptr, error) { return capnp.NewVoidList(s, 3).ToPtr(), nil },
		"no ends":  func(s *capnp.Segment) (capnp.Ptr, error) { return capnp.NewVoidList(s, 1<<28).ToPtr(), nil },
		"bits":     func(s *capnp.Segment) (capnp.Ptr, error) { l, err := capnp.NewBitList(s, 8); return l.ToPtr(), err },
		"bytes":    func(s *capnp.Segment) (capnp.Ptr, error) { l, err := capnp.NewUInt8List(s, 8); return l.ToPtr(), err },
	} {
		_, err := narrow(func(p schema.Dir_narrow_Params) error {
			ptr, err := l(p.Segment())
			if err != nil {
				return err
			}
			return capnp.Struct(p).SetPtr(0, ptr)
		})
		is(t, "a list of "+what, err, vfs.Invalid)
	}
}

// TestRightsThroughAShare: what is shared has the rights of what it was shared from, and ends with it.
func TestRightsThroughAShare(t *testing.T) {
	ctx := t.Context()
	_, c, d := guest(t, vfstest.Tree{"d/f": {Data: "content"}})
	box, r := d.SubDir("d").Narrow(client.Write | client.List | client.Metadata).Revocable()
	loc, _, err := c.Share(ctx, box)
	ok(t, err)
	conn, err := client.Dial(ctx, loc)
	ok(t, err)
	defer conn.Close()
	other := conn.Dir(ctx)
	got, err := other.Rights(ctx)
	if ok(t, err); got != client.Write|client.List|client.Metadata {
		t.Errorf("the share has %v", got)
	}
	_, _, err = other.OpenFile("f").ReadText(ctx)
	is(t, "reading in the drop box", err, vfs.Denied)
	_, err = other.Put(ctx, "f", strings.NewReader("x"), thisVersion)
	is(t, "asking for a version", err, vfs.Denied)
	_, err = other.Put(ctx, "g", strings.NewReader("x"), vfs.If{})
	is(t, "putting into it", err, "")
	is(t, "removing from it", other.RemovePath(ctx, "g", vfs.If{}), vfs.ReadOnly)
	more, err := other.Narrow(client.AllRights).Rights(ctx)
	if ok(t, err); more != got {
		t.Errorf("narrow(all) has %v", more)
	}
	f := other.OpenFile("f").Narrow(client.Metadata)
	has, err := f.Rights(ctx)
	if ok(t, err); has != client.Metadata {
		t.Errorf("the file has %v", has)
	}
	ok(t, r.Revoke(ctx))
	for what, err := range map[string]error{"rights": errOf(other.Rights(ctx)), "narrow": errOf(other.Narrow(client.List).Rights(ctx)), "a file's": errOf(f.Rights(ctx)), "a file's narrow": errOf(f.Narrow(0).Rights(ctx))} {
		is(t, what+" of what was revoked", err, vfs.Revoked)
	}
}

func errOf[T any](_ T, err error) error { return err }
