package tests

import (
	"context"
	"os"
	"testing"

	"capd/client"
	"capd/vfs"
)

// TestAttenuationIsOneWay: whatever is made of a read-only Dir or of one further
// down, by whatever way, has no more than that.
func TestAttenuationIsOneWay(t *testing.T) {
	p := newPlace(t)
	for _, d := range []string{"in/deep", "beside"} {
		ok(t, os.MkdirAll(p.served+"/"+d, 0o755))
	}
	for _, f := range []string{"f", "in/f", "in/deep/f", "beside/f"} {
		ok(t, os.WriteFile(p.served+"/"+f, []byte(f), 0o644))
	}
	ok(t, os.Symlink("../beside", p.served+"/in/out"))
	h := serveAt(p, execCapd(t))
	ctx := context.Background()
	loc, _, ctl := h.grant("agent", "project")
	c := dial(t, loc)
	d := c.Dir(ctx)
	narrow := d.SubDir("in").ReadOnly()
	before := take(t, h.served)

	mine, r := narrow.Revocable()
	walked, err := narrow.Walk(ctx, "deep", true)
	ok(t, err)
	looked, err := narrow.Lookup(ctx, "deep")
	ok(t, err)
	shared := share(t, c, narrow)
	for what, x := range map[string]*client.Dir{
		"readOnly": narrow, "twice": narrow.ReadOnly(), "revocable": mine, "share": shared, "share of a share": shareOfShare(t, c, narrow),
		"readOnly before subDir": d.ReadOnly().SubDir("in"),
	} {
		readOnly(t, what, x)
		readOnly(t, what+", subDir", x.SubDir("deep"))
		is(t, what+": up", by(x, "readBytes", "../f"), "invalid")
		is(t, what+": by a link", by(x, "readBytes", "out/f"), "outside")
	}
	readOnly(t, "walk", walked.(*client.Dir))
	readOnly(t, "get", looked.(*client.Dir))
	is(t, "move into it", d.Move(ctx, "f", narrow, "f2", vfs.If{}, vfs.If{}), "readOnly")
	is(t, "move out of it", narrow.Move(ctx, "f", d, "f2", vfs.If{}, vfs.If{}), "readOnly")
	is(t, "stage", staging(narrow), "readOnly")

	// Locks come and go; what was narrowed stays narrow.
	ok(t, ctl.SetWritable(ctx, false))
	ok(t, ctl.SetWritable(ctx, true))
	readOnly(t, "after unlocking", narrow)
	readOnly(t, "after unlocking, shared", shared)
	is(t, "the wide one", by(d, "put", "beside/new"), "ok")
	ok(t, os.Remove(h.served+"/beside/new"))
	ok(t, r.Revoke(ctx))
	is(t, "revoked", by(mine, "list", "deep"), "revoked")
	readOnly(t, "after revoking what it gave", narrow)

	// The same with a grant that the operator made read-only.
	_, roLoc, roCtl, err := h.console().Grant(ctx, "reader", "project/in", true)
	ok(t, err)
	reader := dial(t, roLoc)
	readOnly(t, "a read-only grant", reader.Dir(ctx))
	readOnly(t, "its share", share(t, reader, reader.Dir(ctx)))
	ok(t, roCtl.SetWritable(ctx, true))
	readOnly(t, "a read-only grant, unlocked", reader.Dir(ctx))
	after := take(t, h.served)
	for _, dir := range []string{".", "beside"} { // what was put there, and staged for it, is gone again
		delete(before, dir)
		delete(after, dir)
	}
	if diff := before.differs(after); diff != "" {
		t.Error(diff)
	}
}

func shareOfShare(t *testing.T, c *client.Conn, d *client.Dir) *client.Dir {
	t.Helper()
	loc, _, err := c.Share(context.Background(), d)
	ok(t, err)
	other := dial(t, loc)
	return share(t, other, other.Dir(context.Background()))
}

// readOnly says that d reads, and changes nothing.
func readOnly(t *testing.T, what string, d *client.Dir) {
	t.Helper()
	is(t, what+": read", by(d, "readBytes", "f"), "ok")
	for _, op := range []string{
		"put", "put noFollow", "stage", "createDir", "createFile", "remove", "move from", "writeText", "writeBytes",
		"stage file", "edit", "write", "append", "truncate", "setAttributes",
	} {
		path := "f"
		if op == "createDir" || op == "createFile" {
			path = "new"
		}
		is(t, what+": "+op, by(d, op, path), "readOnly")
	}
}
