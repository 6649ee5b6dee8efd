package cap_test

import (
	"testing"

	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/tests/scene"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// moveTo moves a to b in dst.
func moveTo(t *testing.T, d, dst *vat.Cap) error {
	return call(t, d, schema.Dir_move, func(p schema.Dir_move_Params, c *vat.Caps) error {
		if err := p.SetPath("a"); err != nil {
			return err
		}
		if err := p.SetNewPath("b"); err != nil {
			return err
		}
		return p.SetDst(c.Put(dst.AddRef()))
	}, nil)
}

// A Dir of another connection arrives as the guest's own, even from the same host. If it
// is shared there and restored here, it works like any other.
func TestOfAnotherConnection(t *testing.T) {
	ctx := t.Context()
	s := serve(t, scene.InMemory(t, vfstest.Tree{"one/a": {Data: "a"}, "two": {Dir: true}}), nil)
	loc, _ := s.Grant(t, "one", "one", false)
	here := scene.Dial(t, loc)
	there, _ := s.Grant(t, "two", "two", false)
	other := scene.Dial(t, there)
	foreign := other.Dir(ctx)
	defer foreign.Close()
	_, err := foreign.Stat(ctx)
	ok(t, err)

	_, _, err = here.Share(ctx, foreign)
	is(t, "share of another connection's", err, vfs.Invalid)
	d := here.Dir(ctx)
	defer d.Close()
	is(t, "move to another connection's", moveTo(t, d.Cap(), foreign.Cap()), vfs.Unsupported)

	line, _, err := other.Share(ctx, foreign)
	ok(t, err)
	shared, err := locator.Parse(line)
	ok(t, err)
	session := s.session(t)
	defer session.Release()
	src, dst := restore(ctx, session, loc.Secret[:]), restore(ctx, session, shared.Secret[:])
	defer src.Release()
	defer dst.Release()
	ok(t, moveTo(t, src, dst))
	reads(t, foreign, "b", "a")
}

// A capability of the wrong kind is refused, and the error names its kind.
func TestWrongKind(t *testing.T) {
	s, _, d := guest(t, vfstest.Tree{"f": {}, "a": {}})
	f := d.OpenFile("f")
	defer f.Close()
	loc, _ := s.Grant(t, "other", "", false)
	session := s.session(t)
	defer session.Release()
	dir := client.NewDir(restore(t.Context(), session, loc.Secret[:]))
	defer dir.Close()
	file := dir.OpenFile("f")
	defer file.Close()
	share := func(fill func(schema.Ref, *vat.Caps) error) error {
		return call(t, session, schema.Session_share, func(p schema.Session_share_Params, c *vat.Caps) error {
			ref, err := p.NewRef()
			if err != nil {
				return err
			}
			return fill(ref, c)
		}, nil)
	}
	is(t, "share of a File as a Dir", share(func(r schema.Ref, c *vat.Caps) error { return r.SetDir(c.Put(file.Cap().AddRef())) }), vfs.NotDir)
	is(t, "share of a Dir as a File", share(func(r schema.Ref, c *vat.Caps) error { return r.SetFile(c.Put(dir.Cap().AddRef())) }), vfs.IsDir)
	is(t, "share of a Dir", share(func(r schema.Ref, c *vat.Caps) error { return r.SetDir(c.Put(dir.Cap().AddRef())) }), "")
	is(t, "move into a File", moveTo(t, dir.Cap(), file.Cap()), vfs.NotDir)
}
