package tests

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/vat"
	"capd/vfs"
)

// holding is something that a guest got from a grant, and a way to use it.
type holding struct {
	name string
	look func(ctx context.Context) error
	// change, if not nil, changes something through it.
	change func(ctx context.Context) error
}

// tree makes the files for the tests of revocation.
func (p *place) tree() {
	p.Helper()
	for _, d := range []string{"a/b", "a/other", "many"} {
		ok(p, os.MkdirAll(filepath.Join(p.served, d), 0o755))
	}
	for _, f := range []string{"f", "a/f", "a/b/f", "a/other/f"} {
		ok(p, os.WriteFile(filepath.Join(p.served, f), []byte("content"), 0o644))
	}
	for i := range 2500 {
		ok(p, os.WriteFile(filepath.Join(p.served, "many", fmt.Sprintf("f%04d", i)), nil, 0o644))
	}
	ok(p, os.WriteFile(filepath.Join(p.served, "big"), make([]byte, 24<<20), 0o644))
}

func byDir(name string, d *client.Dir) holding {
	return holding{name,
		func(ctx context.Context) error { _, err := d.Stat(ctx); return err },
		func(ctx context.Context) error { return byPut(ctx, d, "f") }}
}

func byFile(name string, f *client.File) holding {
	return holding{name,
		func(ctx context.Context) error { _, _, err := f.ReadText(ctx); return err },
		func(ctx context.Context) error { _, err := f.WriteText(ctx, "changed", vfs.If{}); return err }}
}

func byPut(ctx context.Context, d *client.Dir, path string) error {
	_, err := try(ctx, "put", d.Cap(), path)
	return err
}

// holdings returns everything that can be derived from a Dir of tree's files.
func holdings(t *testing.T, c *client.Conn, d *client.Dir) []holding {
	t.Helper()
	ctx := context.Background()
	a := d.SubDir("a")
	mine, _ := d.Revocable()
	minesFile, _ := a.OpenFile("f").Revocable()
	walked, err := d.Walk(ctx, "a/b", true)
	ok(t, err)
	looked, err := a.Lookup(ctx, "f")
	ok(t, err)
	made, err := d.CreateDir(ctx, fmt.Sprint("made", time.Now().UnixNano()))
	ok(t, err)
	all := []holding{
		byDir("the Dir itself", d), byDir("subDir", a), byDir("subDir of a subDir", a.SubDir("b")),
		byDir("walk", walked.(*client.Dir)), byDir("createDir", made), byDir("revocable", mine), byDir("subDir of a revocable", mine.SubDir("a")),
		byFile("openFile", d.OpenFile("a/f")), byFile("get", looked.(*client.File)), byFile("revocable of a file", minesFile),
	}
	only := byDir("readOnly", d.ReadOnly())
	onlyFile := byFile("readOnly of a file", d.OpenFile("f").ReadOnly())
	deep := byDir("readOnly of a revocable's subDir", mine.SubDir("a/b").ReadOnly())
	only.change, onlyFile.change, deep.change = nil, nil, nil
	all = append(all, only, onlyFile, deep)

	shared, r, err := c.Share(ctx, a)
	ok(t, err)
	r.Close()
	other := dial(t, shared)
	child := other.Dir(ctx)
	ok(t, child.Cap().Settle(ctx))
	all = append(all, byDir("share, restored before", child))
	all = append(all, holding{"share, restored now", func(ctx context.Context) error {
		n, err := dial(t, shared).Node(ctx)
		if err == nil {
			n.Close()
		}
		return err
	}, nil})
	grand, r, err := other.Share(ctx, child.SubDir("b"))
	ok(t, err)
	r.Close()
	grandchild := dial(t, grand).Dir(ctx)
	ok(t, grandchild.Cap().Settle(ctx))
	all = append(all, byDir("share of a share", grandchild))
	all = append(all, holding{"share of a share, restored now", func(ctx context.Context) error {
		_, err := dial(t, grand).Node(ctx)
		return err
	}, nil})
	return all
}

// TestRevoke: over the wire and on a real directory, revocation reaches
// everything that was ever derived. So do lock and unlock.
func TestRevoke(t *testing.T) {
	p := newPlace(t)
	p.tree()
	h := serveAt(p, execCapd(t))
	ctx := context.Background()
	loc, id, ctl := h.grant("agent", "project")
	bystander, _, _ := h.grant("bystander", "project")
	calm := dial(t, bystander).Dir(ctx)
	c := dial(t, loc)
	d := c.Dir(ctx)
	all := holdings(t, c, d)
	each := func(when, look, change string) {
		t.Helper()
		for _, x := range all {
			is(t, when+": look by "+x.name, x.look(ctx), look)
			if x.change != nil {
				is(t, when+": change by "+x.name, x.change(ctx), change)
			}
		}
		ok(t, byPut(ctx, calm, "bystander"))
	}
	each("at first", "ok", "ok")
	ok(t, ctl.SetWritable(ctx, false))
	each("locked", "ok", "readOnly")
	ok(t, ctl.SetWritable(ctx, false))
	is(t, "stage, locked", staging(d), "readOnly")
	ok(t, ctl.SetWritable(ctx, true))
	each("unlocked", "ok", "ok")
	ok(t, ctl.SetReadable(ctx, false))
	for _, x := range all {
		if x.name != "share, restored now" && x.name != "share of a share, restored now" {
			is(t, "unreadable: look by "+x.name, x.look(ctx), "denied")
		}
	}
	is(t, "unreadable: put", byPut(ctx, d, "f"), "ok")
	_, err := d.Put(ctx, "f", nothing(), vfs.If{Is: vfs.Version{1}})
	is(t, "unreadable: put with a version", err, "denied")
	ok(t, ctl.SetReadable(ctx, true))

	list := halfListed(t, d)
	stream := halfStreamed(t, d)
	writer := halfWritten(t, d)
	before := take(t, h.served)
	ok(t, ctl.Revoke(ctx))
	each("revoked", "revoked", "revoked")
	is(t, "a list in progress", list(), "revoked")
	is(t, "a stream in progress", stream(), "revoked")
	is(t, "a staged writer", writer(), "revoked")
	_, err = dial(t, loc).Node(ctx)
	is(t, "the locator", err, "revoked")
	_, _, err = c.Share(ctx, d)
	is(t, "share", err, "revoked")
	ok(t, ctl.Revoke(ctx))
	n, err := h.console().Revoke(ctx, id)
	ok(t, err)
	if n != 0 { // its control has revoked it
		t.Errorf("revoked %d grants", n)
	}
	own, effective, err := ctl.Writable(ctx)
	if !own || effective || err != nil {
		t.Errorf("a revoked grant says writable %v, %v, %v", own, effective, err)
	}
	after := take(t, h.served)
	delete(before, "bystander")
	delete(after, "bystander")
	delete(before, ".")
	delete(after, ".")
	if diff := before.differs(after); diff != "" {
		t.Errorf("changed after the revoke: %s", diff)
	}
	ok(t, d.Close()) // close works after a revoke
	ok(t, c.Close())
	ok(t, byPut(ctx, calm, "f"))
	h.noStagedFiles()
}

// halfListed reads one page of a list, and returns a function that reads on.
func halfListed(t *testing.T, d *client.Dir) func() error {
	next, stop := iter.Pull2(d.SubDir("many").List(context.Background()))
	for range 500 {
		if _, err, more := next(); err != nil || !more {
			t.Fatalf("a list ends with %v", err)
		}
	}
	return func() error {
		defer stop()
		for {
			if _, err, more := next(); err != nil || !more {
				return err
			}
		}
	}
}

// halfStreamed reads part of a stream, and returns a function that reads the
// rest.
func halfStreamed(t *testing.T, d *client.Dir) func() error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	f := d.OpenFile("big")
	go func() {
		_, err := f.Stream(context.Background(), w, 0, 0)
		w.CloseWithError(io.EOF)
		done <- err
	}()
	if _, err := io.ReadFull(r, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	return func() error {
		go io.Copy(io.Discard, r)
		select {
		case err := <-done:
			return err
		case <-time.After(patience):
			return context.DeadlineExceeded
		}
	}
}

// halfWritten writes part of a file, and returns a function that commits.
func halfWritten(t *testing.T, d *client.Dir) func() error {
	ctx := context.Background()
	a := vat.Send(ctx, d.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath("f") })
	w := a.Cap(schema.Dir_stage_Results_writer)
	a.Release()
	write := func() error {
		return vat.Do(ctx, w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error { return p.SetData(make([]byte, 1<<20)) }, nil)
	}
	ok(t, wire.Decode(write()))
	return func() error {
		defer w.Release()
		if err := wire.Decode(write()); !hasCode(err, "revoked") {
			t.Errorf("a write to a staged writer: %v", err)
		}
		return wire.Decode(vat.Do(ctx, w, schema.Writer_commit, nil, nil))
	}
}

func staging(d *client.Dir) error {
	_, err := try(context.Background(), "stage", d.Cap(), "f")
	return err
}

// TestRevokeByGuest: a guest revokes what it has derived, and nothing else.
func TestRevokeByGuest(t *testing.T) {
	p := newPlace(t)
	p.tree()
	h := serveAt(p, execCapd(t))
	ctx := context.Background()
	c := dial(t, h.locator)
	top := c.Dir(ctx).SubDir("project")
	mine, r := top.Revocable()
	all := holdings(t, c, mine)
	list, stream, writer := halfListed(t, mine), halfStreamed(t, mine), halfWritten(t, mine)
	ok(t, r.Revoke(ctx))
	for _, x := range all {
		is(t, "look by "+x.name, x.look(ctx), "revoked")
		if x.change != nil {
			is(t, "change by "+x.name, x.change(ctx), "revoked")
		}
	}
	is(t, "a list in progress", list(), "revoked")
	is(t, "a stream in progress", stream(), "revoked")
	is(t, "a staged writer", writer(), "revoked")
	ok(t, r.Revoke(ctx))
	is(t, "what it was derived from", byPut(ctx, top, "f"), "ok")
	loc, share, err := c.Share(ctx, top.SubDir("a"))
	ok(t, err)
	d := dial(t, loc).Dir(ctx)
	is(t, "a share", byPut(ctx, d, "f"), "ok")
	ok(t, share.Revoke(ctx))
	is(t, "a share that was taken back", byPut(ctx, d, "f"), "revoked")
	ok(t, r.Close())
}
