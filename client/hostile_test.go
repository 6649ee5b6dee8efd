package client_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	schema "capd/capnp"
	"capd/client"
	"capd/locator"
	"capd/vat"
	"capd/vfs"
)

// evil is a host whose answers make no sense.
type evil struct {
	entries func(after string) (names []string, more bool, cursor string)
	size    uint64
	kind    schema.Type
	reason  string // of an exception
	data    int    // bytes in answers to read
}

func (e *evil) fill(alloc func(int32) (schema.Stat_List, error), names []string) error {
	l, err := alloc(int32(len(names)))
	if err != nil {
		return err
	}
	for i, name := range names {
		if err := l.At(i).SetRawName([]byte(name)); err != nil {
			return err
		}
	}
	return nil
}

var evilTable *vat.Table

func init() { // its methods make more of its kind
	evilTable = vat.NewTable(
		vat.Handle(schema.Session_restore, func(e *evil, c vat.Call[schema.Session_restore_Params, schema.Session_restore_Results]) error {
			r := c.Results()
			ref, err := r.NewRef()
			if err != nil {
				return err
			}
			return ref.SetDir(c.Caps().Put(vat.Serve(evilTable, e)))
		}),
		vat.Handle(schema.Session_restoreDir, func(e *evil, c vat.Call[schema.Session_restoreDir_Params, schema.Session_restoreDir_Results]) error {
			return c.Results().SetDir(c.Caps().Put(vat.Serve(evilTable, e)))
		}),
		vat.Handle(schema.Session_share, func(*evil, vat.Call[schema.Session_share_Params, schema.Session_share_Results]) error { return nil }),
		vat.Handle(schema.Dir_list, func(e *evil, c vat.Call[schema.Dir_list_Params, schema.Dir_list_Results]) error {
			after, _ := c.Params().After()
			r := c.Results()
			names, more, _ := e.entries(string(after))
			r.SetMore(more)
			return e.fill(r.NewEntries, names)
		}),
		vat.Handle(schema.Dir_glob, func(e *evil, c vat.Call[schema.Dir_glob_Params, schema.Dir_glob_Results]) error {
			after, _ := c.Params().After()
			r := c.Results()
			names, more, cursor := e.entries(string(after))
			r.SetMore(more)
			if err := r.SetCursor([]byte(cursor)); err != nil {
				return err
			}
			return e.fill(r.NewEntries, names)
		}),
		// Each of these answers a null capability, or a stat of another kind.
		vat.Handle(schema.Dir_createFile, func(*evil, vat.Call[schema.Dir_createFile_Params, schema.Dir_createFile_Results]) error { return nil }),
		vat.Handle(schema.Dir_createDir, func(*evil, vat.Call[schema.Dir_createDir_Params, schema.Dir_createDir_Results]) error { return nil }),
		vat.Handle(schema.Dir_openFile, func(e *evil, c vat.Call[schema.Dir_openFile_Params, schema.Dir_openFile_Results]) error {
			path, _ := c.Params().Path()
			r := c.Results()
			if path == "null" {
				return nil
			}
			return r.SetFile(c.Caps().Put(vat.Serve(evilTable, e)))
		}),
		vat.Handle(schema.Dir_get, func(e *evil, c vat.Call[schema.Dir_get_Params, schema.Dir_get_Results]) error {
			name, _ := c.Params().Name()
			r := c.Results()
			n, err := r.NewNode()
			if err != nil {
				return err
			}
			switch name {
			case "file":
				return n.SetFile(capnp.Interface{})
			case "link":
				_, err = n.NewLink()
				return err
			case "other":
				capnp.Struct(n).SetUint16(0, 77)
			}
			return err
		}),
		vat.Handle(schema.Dir_walk, func(*evil, vat.Call[schema.Dir_walk_Params, schema.Dir_walk_Results]) error { return nil }),
		vat.Handle(schema.Dir_put, func(_ *evil, c vat.Call[schema.Dir_put_Params, schema.Dir_put_Results]) error {
			return c.Results().SetVersion([]byte("short"))
		}),
		vat.Handle(schema.Dir_stat, func(e *evil, c vat.Call[schema.Dir_stat_Params, schema.Dir_stat_Results]) error {
			r := c.Results()
			st, err := r.NewStat()
			st.SetSizeBytes(e.size)
			st.SetType(e.kind)
			return err
		}),
		vat.Handle(schema.Dir_remove, func(e *evil, _ vat.Call[schema.Dir_remove_Params, schema.Dir_remove_Results]) error {
			return &vat.Exception{Type: vat.Failed, Reason: e.reason}
		}),
		vat.Handle(schema.File_read, func(e *evil, c vat.Call[schema.File_read_Params, schema.File_read_Results]) error {
			return c.Results().SetData(make([]byte, e.data))
		}),
		vat.Handle(schema.File_append, func(_ *evil, c vat.Call[schema.File_append_Params, schema.File_append_Results]) error {
			c.Results().SetOffset(1 << 63)
			return nil
		}),
		vat.Handle(schema.File_readBytes, func(*evil, vat.Call[schema.File_readBytes_Params, schema.File_readBytes_Results]) error {
			return &vat.Exception{Type: vat.Failed, Reason: "capd: tooLarge: stream it"}
		}),
		vat.Handle(schema.File_stream, func(e *evil, c vat.Call[schema.File_stream_Params, schema.File_stream_Results]) error {
			sink := c.Caps().Get(c.Params().Sink())
			for range 3 {
				a := vat.Send(c.Context(), sink, schema.Sink_write, func(p schema.Sink_write_Params, _ *vat.Caps) error {
					return p.SetData(make([]byte, e.data))
				})
				a.Release()
			}
			if err := sink.Drain(c.Context()); err != nil {
				return err
			}
			c.Results().SetBytes(3)
			return nil
		}),
	)
}

func dialEvil(t *testing.T, e *evil) (*client.Conn, *client.Dir) {
	a, b := net.Pipe()
	h := vat.NewConn(a, vat.Options{Bootstrap: vat.Serve(evilTable, e)})
	c := client.NewConn(b, locator.Locator{Socket: "/nowhere"})
	t.Cleanup(func() { c.Close(); h.Close() })
	return c, c.Dir(t.Context())
}

// collect reads a listing until it ends, but at most as much as a program would.
func collect[E any](seq func(func(E, error) bool)) (n int, err error) {
	for _, e := range seq {
		if e != nil {
			return n, e
		}
		if n++; n == 100_000 {
			return n, nil
		}
	}
	return n, nil
}

func TestHostileNames(t *testing.T) {
	always := func(names ...string) func(string) ([]string, bool, string) {
		return func(string) ([]string, bool, string) { return names, true, "a" }
	}
	for what, entries := range map[string]func(string) ([]string, bool, string){
		"descending":          always("b", "a"),
		"twice":               always("a", "a"),
		"the same page again": always("a", "b"),
		"a path that rises":   always("../x"),
		"dot dot":             always(".."),
		"absolute":            always("/etc/passwd"),
		"NUL":                 always("a\x00b"),
		"empty":               always(""),
		"long":                always(strings.Repeat("n", 256)),
		"no end of nothing":   always(),
		"two cursors": func(after string) ([]string, bool, string) {
			if after == "x" {
				return nil, true, "y"
			}
			return nil, true, "x"
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			_, d := dialEvil(t, &evil{entries: entries})
			_, err := collect(d.List(ctx))
			is(t, "List", err, vfs.Corrupt)
			_, err = collect(d.Entries(ctx, true))
			is(t, "Entries", err, vfs.Corrupt)
			_, err = collect(d.Glob(ctx, "**"))
			is(t, "Glob", err, vfs.Corrupt)
		})
	}
}

func TestHostilePages(t *testing.T) {
	_, d := dialEvil(t, &evil{entries: func(string) (names []string, more bool, cursor string) {
		for i := range 10_001 {
			names = append(names, fmt.Sprintf("%06d", i))
		}
		return names, false, ""
	}})
	_, err := collect(d.List(t.Context()))
	is(t, "a page over the bound", err, vfs.Corrupt)

	n := 0
	_, d = dialEvil(t, &evil{entries: func(string) ([]string, bool, string) {
		n++
		name := fmt.Sprintf("%012d", n)
		return []string{name}, true, name
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := collect(d.List(ctx)); err == nil || ctx.Err() == nil {
		t.Errorf("an endless listing does not end with its context: %v", err)
	}
}

func TestHostileAnswers(t *testing.T) {
	ctx := t.Context()
	e := &evil{size: 1 << 63, kind: schema.Type_directory}
	c, d := dialEvil(t, e)
	corrupt := func(what string, err error) {
		t.Helper()
		is(t, what, err, vfs.Corrupt)
	}
	f, err := d.Create(ctx, "f")
	corrupt("Create", err)
	sub, err2 := d.Mkdir(ctx, "d")
	corrupt("Mkdir", err2)
	for _, name := range []string{"dir", "file", "other"} {
		n, err := d.Lookup(ctx, name)
		corrupt("Lookup "+name, err)
		if n != nil {
			t.Errorf("Lookup %s answers a node, too", name)
		}
	}
	if f != nil || sub != nil {
		t.Error("Create or Mkdir answers a node, too")
	}
	l, err := d.Lookup(ctx, "link")
	ok(t, err)
	_, err = l.Stat(ctx)
	is(t, "Stat of a link that is none", err, vfs.Stale)
	_, err = d.Put(ctx, "f", strings.NewReader("x"), vfs.If{})
	corrupt("Put", err)
	_, err = d.Stat(ctx)
	corrupt("Stat with a size that no file has", err)
	e.size, e.kind = 0, schema.Type_file
	_, err = d.Stat(ctx)
	corrupt("Stat of a directory that is a file", err)
	_, _, err = c.Share(ctx, d)
	corrupt("Share", err)
	_, _, err = d.OpenFile("null").ReadBytes(ctx)
	if err == nil {
		t.Error("a null file reads")
	}
	for _, n := range []int{0, 9, 11} {
		e.data = n
		_, err = d.OpenFile("f").ReadAt(ctx, make([]byte, 10), 0)
		corrupt(fmt.Sprintf("ReadAt of 10 that answers %d", n), err)
	}
	_, err = d.OpenFile("f").Append(ctx, []byte("x"), vfs.If{})
	corrupt("Append", err)
	_, err = vfs.Open(ctx, d.OpenFile("f"))
	corrupt("a stream that says another length", err)
	var got strings.Builder
	e.data = 100
	_, err = d.OpenFile("f").Stream(ctx, &got, 0, 150)
	corrupt("a stream of more than was asked for", err)
	if got.Len() > 150 {
		t.Errorf("a stream of 150 bytes wrote %d", got.Len())
	}
}

// Only the word after the first mark is the code, and only if it is one of the set.
func TestHostileReasons(t *testing.T) {
	for reason, want := range map[string]vfs.Code{
		"capd: revoked: x":            vfs.Revoked,
		"capd: notFound: revoked: x":  vfs.NotFound,
		"revoked: x":                  vfs.Internal,
		"capd:  revoked: x":           vfs.Internal,
		"capd: Revoked: x":            vfs.Internal,
		"":                            vfs.Internal,
		":":                           vfs.Internal,
		"\x1b[2J\u202e":               vfs.Internal,
		"capd: denied: \x1b[2J\u202e": vfs.Denied,
		strings.Repeat("x", 100_000):  vfs.Internal,
	} {
		_, d := dialEvil(t, &evil{reason: reason})
		err := d.Remove(t.Context(), "x", vfs.If{})
		is(t, fmt.Sprintf("%.20q", reason), err, want)
		if strings.ContainsAny(err.Error(), "\x1b\u202e") {
			t.Errorf("%q shows what a terminal would act on", err)
		}
	}
}
