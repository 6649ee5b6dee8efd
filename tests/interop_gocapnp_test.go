package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capnproto.org/go/capnp/v3"
	"capnproto.org/go/capnp/v3/exc"
	"capnproto.org/go/capnp/v3/rpc"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// A guest on go-capnp's own RPC, against the real capd. It calls methods by
// their numbers, since the generated code does not support that RPC.

// goGuest is one connection of such a guest.
type goGuest struct {
	*testing.T
	conn    *rpc.Conn
	session capnp.Client
	dir     capnp.Client
}

func goConnect(t *testing.T, loc string) *goGuest {
	t.Helper()
	l, err := locator.Parse(loc)
	ok(t, err)
	nc, err := net.Dial("unix", l.Socket)
	ok(t, err)
	g := &goGuest{T: t, conn: rpc.NewConn(rpc.NewStreamTransport(nc), nil)}
	t.Cleanup(func() {
		g.dir.Release()
		g.session.Release()
		g.conn.Close()
		<-g.conn.Done()
	})
	g.session = g.conn.Bootstrap(t.Context())
	a := goSend(g, g.session, schema.Session_restore, func(p schema.Session_restore_Params) error { return p.SetSecret(l.Secret[:]) })
	g.dir = a.Field(uint16(schema.Session_restore_Results_ref), nil).Field(uint16(schema.Ref_dir), nil).Client().AddRef()
	return g
}

// goSend calls a method. The answer is released at the end of the test.
func goSend[P, R ~capnp.StructKind](g *goGuest, c capnp.Client, m vat.Method[P, R], place func(P) error) *capnp.Answer {
	a, release := c.SendCall(g.Context(), goCall(m, place))
	g.Cleanup(release)
	return a
}

func goCall[P, R ~capnp.StructKind](m vat.Method[P, R], place func(P) error) capnp.Send {
	s := capnp.Send{Method: capnp.Method{InterfaceID: m.Interface, MethodID: m.ID, MethodName: m.Name}, ArgsSize: m.Params}
	if place != nil {
		s.PlaceArgs = func(s capnp.Struct) error { return place(P(s)) }
	}
	return s
}

// goDo calls a method and waits for the answer.
func goDo[P, R ~capnp.StructKind](g *goGuest, c capnp.Client, m vat.Method[P, R], place func(P) error) (R, error) {
	s, err := goSend(g, c, m, place).Struct()
	return R(s), err
}

// put stores a capability in parameters.
func put(s capnp.StructKind, c capnp.Client) capnp.Interface {
	seg := capnp.Struct(s).Segment()
	return capnp.NewInterface(seg, seg.Message().CapTable().Add(c.AddRef()))
}

func (g *goGuest) openFile(dir capnp.Client, path string) capnp.Client {
	a := goSend(g, dir, schema.Dir_openFile, func(p schema.Dir_openFile_Params) error { return p.SetPath(path) })
	return a.Field(uint16(schema.Dir_openFile_Results_file), nil).Client()
}

func (g *goGuest) subDir(dir capnp.Client, path string) capnp.Client {
	a := goSend(g, dir, schema.Dir_subDir, func(p schema.Dir_subDir_Params) error { return p.SetPath(path) })
	return a.Field(uint16(schema.Dir_subDir_Results_dir), nil).Client()
}

func (g *goGuest) readText(file capnp.Client) string {
	g.Helper()
	r, err := goDo(g, file, schema.File_readText, nil)
	ok(g, err)
	text, err := r.Text()
	ok(g, err)
	return text
}

// refused checks that err is an error of the host with this code, and the type
// that belongs to the code.
func (g *goGuest) refused(err error, code vfs.Code) {
	g.Helper()
	if err == nil {
		g.Errorf("nothing was refused, want %s", code)
		return
	}
	if !strings.Contains(err.Error(), "capd: "+string(code)+": ") {
		g.Errorf("refused as %q, want %s", err, code)
	}
	if got, want := exc.TypeOf(err).String(), exceptionOf(string(code)); got != want {
		g.Errorf("%s is a %s exception, want %s", code, got, want)
	}
}

// goSink is a sink that go-capnp serves.
type goSink struct {
	got    bytes.Buffer
	done   bool
	closed chan struct{}
	refuse error              // the answer to each write
	cancel context.CancelFunc // called at each write
}

func (*goSink) Send(context.Context, capnp.Send) (*capnp.Answer, capnp.ReleaseFunc) {
	panic("called from here")
}

func (s *goSink) Recv(_ context.Context, r capnp.Recv) capnp.PipelineCaller {
	defer r.ReleaseArgs()
	switch r.Method.MethodID {
	case schema.Sink_write.ID:
		data, err := schema.Sink_write_Params(r.Args).Data()
		if err == nil {
			err = s.refuse
		}
		if err != nil {
			r.Reject(err)
			return nil
		}
		s.got.Write(data)
		if s.cancel != nil {
			s.cancel()
		}
	case schema.Sink_done.ID:
		s.done = true
	}
	if _, err := r.AllocResults(capnp.ObjectSize{}); err != nil {
		r.Reject(err)
		return nil
	}
	r.Return()
	return nil
}
func (*goSink) Brand() capnp.Brand { return capnp.Brand{} }
func (s *goSink) Shutdown()        { close(s.closed) }
func (*goSink) String() string     { return "goSink" }

func (g *goGuest) stream(file capnp.Client, s *goSink) (uint64, error) {
	s.closed = make(chan struct{})
	c := capnp.NewClient(s)
	r, err := goDo(g, file, schema.File_stream, func(p schema.File_stream_Params) error { return p.SetSink(put(p, c)) })
	c.Release()
	return r.Bytes(), err
}

func TestInteropGoCapnp(t *testing.T) {
	h := serve(t)
	s := &cxxScene{TB: t, host: h, dir: h.served}
	s.tree()
	bigFile(s)
	loc, _, ctl := h.grant("go-capnp", "project")
	defer ctl.Close()

	run := func(name string, f func(g *goGuest)) {
		t.Run(name, func(t *testing.T) { f(goConnect(t, loc)) })
	}
	run("list", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_list, nil)
		ok(g, err)
		names, err := statNames(r.Entries())
		ok(g, err)
		if got, want := strings.Join(names, " "), ".git a.md big docs exec.sh latin1 link loop out"; got != want {
			g.Errorf("listed %s, want %s", got, want)
		}
	})
	run("read", func(g *goGuest) {
		file := g.openFile(g.dir, "big")
		r, err := goDo(g, file, schema.File_read, func(p schema.File_read_Params) error {
			p.SetOffset(1_000_001)
			p.SetLength(1 << 20)
			return nil
		})
		ok(g, err)
		data, err := r.Data()
		ok(g, err)
		if !bytes.Equal(data, big()[1_000_001:][:1<<20]) {
			g.Error("something else was read")
		}
	})
	run("readLines", func(g *goGuest) {
		r, err := goDo(g, g.openFile(g.dir, "latin1"), schema.File_readLines, func(p schema.File_readLines_Params) error {
			p.SetLast(true)
			return nil
		})
		ok(g, err)
		if data, err := r.Data(); err != nil || string(data) != "caf\xe9\n" || r.Next() != 2 {
			g.Errorf("read %q, next %d, %v", data, r.Next(), err)
		}
	})
	run("readMany", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_readMany, func(p schema.Dir_readMany_Params) error {
			l, err := p.NewPaths(2)
			return errors.Join(err, l.Set(0, "latin1"), l.Set(1, "none"))
		})
		ok(g, err)
		files, err := r.Files()
		ok(g, err)
		if data, err := files.At(0).Data(); err != nil || files.Len() != 2 || string(data) != "caf\xe9\n" || !files.At(1).HasError() {
			g.Errorf("%d files, the first %q, %v", files.Len(), data, err)
		}
	})
	run("tree", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_tree, func(p schema.Dir_tree_Params) error {
			p.SetDepth(1)
			p.SetLimit(2)
			return nil
		})
		ok(g, err)
		branches, err := r.Branches()
		ok(g, err)
		if branches.Len() != 3 || branches.At(0).Depth() != 0 || branches.At(0).More() == 0 || branches.At(2).Depth() != 1 {
			g.Errorf("%d branches, %d more", branches.Len(), branches.At(0).More())
		}
	})
	run("changedSince", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_changedSince, func(p schema.Dir_changedSince_Params) error {
			l, err := p.NewKnown(2)
			return errors.Join(err, l.At(0).SetPath("latin1"), l.At(1).SetPath("none"))
		})
		ok(g, err)
		changed, err := r.Changed()
		ok(g, err)
		if changed.Len() != 1 || changed.At(0).Index() != 0 || !changed.At(0).HasVersion() || r.Looked() != 2 {
			g.Errorf("%d of %d paths differ, the first is %d", changed.Len(), r.Looked(), changed.At(0).Index())
		}
	})
	run("changes", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_changes, func(schema.Dir_changes_Params) error { return nil })
		ok(g, err)
		cursor, err := r.Cursor()
		ok(g, err)
		_, err = goDo(g, g.dir, schema.Dir_createDir, func(p schema.Dir_createDir_Params) error { return p.SetPath("noticed") })
		ok(g, err)
		r, err = goDo(g, g.dir, schema.Dir_changes, func(p schema.Dir_changes_Params) error {
			p.SetWaitMs(60_000)
			return p.SetCursor(cursor)
		})
		ok(g, err)
		events, err := r.Events()
		ok(g, err)
		if path, err := events.At(0).Path(); err != nil || events.Len() != 1 || path != "noticed" || !events.At(0).Own() {
			g.Errorf("%d events, the first is of %q, %v", events.Len(), path, err)
		}
	})
	run("patch", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_patch, func(p schema.Dir_patch_Params) error {
			return p.SetText([]byte("*** Begin Patch\n*** Add File: patched/f\n+made\n*** End Patch\n"))
		})
		ok(g, err)
		files, err := r.Files()
		ok(g, err)
		if v, err := files.At(0).Version(); err != nil || files.Len() != 1 || fmt.Sprintf("%x", v) != version([]byte("made\n")) {
			g.Errorf("%d files, the first has %x, %v", files.Len(), v, err)
		}
	})
	run("change", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_change, func(p schema.Dir_change_Params) error {
			l, err := p.NewSteps(2)
			if err != nil {
				return err
			}
			l.At(0).SetCreateDir()
			return errors.Join(l.At(0).SetPath("stepped"), l.At(1).SetPath("stepped/f"), l.At(1).SetPut([]byte("step")))
		})
		ok(g, err)
		versions, err := r.Versions()
		ok(g, err)
		if v, err := versions.At(1); err != nil || versions.Len() != 2 || fmt.Sprintf("%x", v) != version([]byte("step")) {
			g.Errorf("%d versions, the second is %x, %v", versions.Len(), v, err)
		}
	})
	run("history", func(g *goGuest) {
		for _, text := range []string{"before", "after"} {
			_, err := goDo(g, g.dir, schema.Dir_put, func(p schema.Dir_put_Params) error {
				return errors.Join(p.SetData([]byte(text)), p.SetPath("put"))
			})
			ok(g, err)
		}
		r, err := goDo(g, g.dir, schema.Dir_undo, func(p schema.Dir_undo_Params) error {
			w, err := p.NewWhat()
			w.SetLast(1)
			return err
		})
		ok(g, err)
		if steps, err := r.Steps(); err != nil || steps.Len() != 1 || r.Id() == 0 {
			g.Errorf("%d steps, undo %d, %v", steps.Len(), r.Id(), err)
		}
		h, err := goDo(g, g.dir, schema.Dir_history, func(p schema.Dir_history_Params) error { p.SetLimit(1); return nil })
		ok(g, err)
		entries, err := h.Entries()
		ok(g, err)
		if entries.Len() != 1 || !entries.At(0).Undoes() || !h.More() {
			g.Errorf("%d entries, more %v", entries.Len(), h.More())
		}
	})
	run("extract", func(g *goGuest) {
		_, err := goDo(g, g.dir, schema.Dir_put, func(p schema.Dir_put_Params) error {
			ok(g, p.SetPath("z.zip"))
			return p.SetData([]byte(noEntries))
		})
		ok(g, err)
		r, err := goDo(g, g.dir, schema.Dir_extract, func(p schema.Dir_extract_Params) error {
			ok(g, p.SetPath("z.zip"))
			return p.SetNewPath("extracted")
		})
		ok(g, err)
		if r.Entries() != 1 || r.SizeBytes() != 0 {
			g.Errorf("%d entries of %d bytes were extracted", r.Entries(), r.SizeBytes())
		}
	})
	run("copy", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_copy, func(p schema.Dir_copy_Params) error {
			ok(g, p.SetPath("docs/b.md"))
			return p.SetNewPath("copied")
		})
		ok(g, err)
		if r.Entries() != 1 || r.SizeBytes() != 7 {
			g.Errorf("%d entries of %d bytes were copied", r.Entries(), r.SizeBytes())
		}
	})
	run("write", func(g *goGuest) {
		r, err := goDo(g, g.dir, schema.Dir_put, func(p schema.Dir_put_Params) error {
			p.SetData([]byte("put"))
			return p.SetPath("put")
		})
		ok(g, err)
		v, err := r.Version()
		ok(g, err)
		if fmt.Sprintf("%x", v) != version([]byte("put")) {
			g.Errorf("the version is %x", v)
		}
		_, err = goDo(g, g.openFile(g.dir, "put"), schema.File_append, func(p schema.File_append_Params) error {
			c, err := p.NewIfVersion()
			ok(g, err)
			ok(g, c.SetEquals(v))
			return p.SetData([]byte(" and more"))
		})
		ok(g, err)
		holds(s, "put", "put and more")
	})
	run("pipeline", func(g *goGuest) {
		narrow := goSend(g, g.subDir(g.dir, "docs"), schema.Dir_readOnly, nil).Field(uint16(schema.Dir_readOnly_Results_dir), nil).Client()
		if got := g.readText(g.openFile(g.subDir(narrow, "deep"), "c.md")); got != "deep" {
			g.Errorf("read %q", got)
		}
		_, err := goDo(g, g.subDir(narrow, "nowhere"), schema.Dir_stat, nil)
		g.refused(err, vfs.NotFound)
	})
	run("capability arguments", func(g *goGuest) {
		made := goSend(g, g.dir, schema.Dir_createDir, func(p schema.Dir_createDir_Params) error { return p.SetPath("made") })
		_, err := made.Struct()
		ok(g, err)
		dst := made.Field(uint16(schema.Dir_createDir_Results_dir), nil).Client()
		for target, want := range map[string]vfs.Code{"../docs": "", "/docs": vfs.Outside} {
			_, err := goDo(g, g.dir, schema.Dir_symlink, func(p schema.Dir_symlink_Params) error {
				ok(g, p.SetPath("docs/link"))
				return p.SetTarget(target)
			})
			if want == "" {
				ok(g, err)
			} else {
				g.refused(err, want)
			}
		}
		_, err = goDo(g, g.dir, schema.Dir_move, func(p schema.Dir_move_Params) error {
			ok(g, p.SetPath("latin1"))
			ok(g, p.SetNewPath("moved"))
			return p.SetDst(put(p, dst))
		})
		ok(g, err)
		holds(s, "made/moved", "caf\xe9\n")
		r, err := goDo(g, g.session, schema.Session_share, func(p schema.Session_share_Params) error {
			ref, err := p.NewRef()
			ok(g, err)
			return ref.SetDir(put(ref, dst))
		})
		ok(g, err)
		secret, err := r.Secret()
		ok(g, err)
		l, err := locator.Parse(loc)
		ok(g, err)
		copy(l.Secret[:], secret)
		list, err := goDo(g, goConnect(g.T, l.String()).dir, schema.Dir_list, nil)
		ok(g, err)
		if names, err := statNames(list.Entries()); err != nil || strings.Join(names, " ") != "moved" {
			g.Errorf("shared %q, %v", names, err)
		}
		_, err = goDo(g, g.dir, schema.Dir_move, func(p schema.Dir_move_Params) error {
			ok(g, p.SetPath("a.md"))
			ok(g, p.SetNewPath("moved"))
			return p.SetDst(put(p, capnp.NewClient(&goSink{closed: make(chan struct{})})))
		})
		g.refused(err, vfs.Unsupported)
	})
	run("stream to a sink", func(g *goGuest) {
		var sink goSink
		n, err := g.stream(g.openFile(g.dir, "big"), &sink)
		ok(g, err)
		if n != uint64(len(big())) || !sink.done || !bytes.Equal(sink.got.Bytes(), big()) {
			g.Errorf("%d bytes came of %d", sink.got.Len(), n)
		}
		if !closes(sink.closed) {
			g.Error("the host keeps the sink")
		}
		refusing := goSink{refuse: exc.New(exc.Failed, "", "the disk is full")}
		_, err = g.stream(g.openFile(g.dir, "big"), &refusing)
		g.refused(err, vfs.Invalid)
	})
	run("stream to a writer", func(g *goGuest) {
		w := goSend(g, g.dir, schema.Dir_stage, func(p schema.Dir_stage_Params) error { return p.SetPath("staged") }).
			Field(uint16(schema.Dir_stage_Results_writer), nil).Client()
		for rest := big(); len(rest) > 0; {
			n := min(len(rest), wire.Chunk)
			ok(g, w.SendStreamCall(g.Context(), goCall(schema.Writer_write, func(p schema.Writer_write_Params) error { return p.SetData(rest[:n]) })))
			rest = rest[n:]
		}
		ok(g, w.WaitStreaming())
		_, err := goDo(g, w, schema.Writer_commit, nil)
		ok(g, err)
		if b, err := os.ReadFile(filepath.Join(h.served, "staged")); err != nil || !bytes.Equal(b, big()) {
			g.Errorf("something else was written: %d bytes, %v", len(b), err)
		}
	})
	run("cancel", func(g *goGuest) {
		ctx, cancel := context.WithCancel(g.Context())
		defer cancel()
		sink := &goSink{closed: make(chan struct{}), cancel: cancel}
		c := capnp.NewClient(sink)
		a, release := g.openFile(g.dir, "big").SendCall(ctx, goCall(schema.File_stream, func(p schema.File_stream_Params) error { return p.SetSink(put(p, c)) }))
		c.Release()
		_, err := a.Struct()
		release()
		if err == nil {
			g.Error("a cancelled call answered")
		}
		if !closes(sink.closed) {
			g.Fatal("the host keeps the sink")
		}
		if sink.done || sink.got.Len() == len(big()) {
			g.Error("a cancelled stream went on to its end")
		}
		if got := g.readText(g.openFile(g.dir, "a.md")); got != "hello" {
			g.Errorf("read %q", got)
		}
	})
	run("errors", func(g *goGuest) {
		_, err := goDo(g, g.dir, schema.Dir_get, func(p schema.Dir_get_Params) error { return p.SetName(".env") })
		g.refused(err, vfs.Denied)
		_, err = goDo(g, g.dir, schema.Dir_openDir, func(p schema.Dir_openDir_Params) error { return p.SetPath("out") })
		g.refused(err, vfs.Outside)
		_, err = goDo(g, g.dir, schema.Dir_put, func(p schema.Dir_put_Params) error { return p.SetPath("docs") })
		g.refused(err, vfs.IsDir)
		lent := goSend(g, g.dir, schema.Dir_revocable, nil)
		dir := lent.Field(uint16(schema.Dir_revocable_Results_dir), nil).Client()
		_, err = goDo(g, lent.Field(uint16(schema.Dir_revocable_Results_revoker), nil).Client(), schema.Revoker_revoke, nil)
		ok(g, err)
		_, err = goDo(g, dir, schema.Dir_stat, nil)
		g.refused(err, vfs.Revoked)
		_, err = goDo(g, g.dir, schema.File_readText, nil)
		if exc.TypeOf(err) != exc.Unimplemented {
			g.Errorf("a method of another interface: %v", err)
		}
	})
}
