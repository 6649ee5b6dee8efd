package tests

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	schema "capd/capnp"
	"capd/client"
	"capd/vat"
)

// TestFewDescriptors: of a host that may have 1,024 descriptors, a guest that takes all
// it can get leaves enough for another to read, write and connect.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	few := filepath.Join(t.TempDir(), "few")
	ok(t, os.WriteFile(few, []byte("#!/bin/sh\nulimit -n 1024\nexec "+capd(t)+" \"$@\"\n"), 0o755))
	h := serveAt(p, exec.Command(few))
	for i := range 600 {
		ok(t, os.WriteFile(filepath.Join(p.served, fmt.Sprint("f", i)), []byte("inside"), 0o644))
	}
	ctx := context.Background()
	loc, _, _ := h.grant("hoarder", "project")
	held := hoard(t, h, loc)
	open, _ := os.ReadDir("/proc/" + h.pid() + "/fd")
	t.Logf("%s: %d descriptors", held, len(open))
	honest := func(what string, do func() error) {
		t.Helper()
		for range 20 {
			if err := do(); err != nil {
				t.Errorf("%s, beside %s: %v", what, held, err)
				return
			}
		}
	}
	honest("dialling", func() error {
		c, err := client.Dial(ctx, h.locator)
		if err != nil {
			return err
		}
		defer c.Close()
		d := c.Dir(ctx).SubDir("project")
		defer d.Close()
		_, err = d.Stat(ctx)
		return err
	})
	d := dial(t, h.locator).Dir(ctx).SubDir("project")
	i := 0
	for _, op := range []string{"readBytes", "read", "stream", "stat", "list", "put", "stage", "append", "createFile", "glob"} {
		honest(op, func() error {
			i++
			path := fmt.Sprint("f", i)
			switch op {
			case "list":
				path = "."
			case "createFile":
				path = fmt.Sprint("new", i)
			}
			if op == "list" {
				_, err := list(ctx, d.Cap())
				return err
			}
			_, err := try(ctx, op, d.Cap(), path)
			return err
		})
	}
}

// hoard takes connections, contents that nobody reads and files that stay open, as many
// as there are, and says how many those are.
func hoard(t *testing.T, h *hostProcess, loc string) string {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	conns, kept := 0, 0
	d := dial(t, loc).Dir(ctx)
	for i := range 300 { // read twice, so that they are left open
		f := d.OpenFile(fmt.Sprint("f", i))
		t.Cleanup(func() { f.Close() })
		for range 2 {
			if _, err := f.ReadAt(ctx, make([]byte, 4), 0); err == nil || err == io.EOF {
				kept++
			}
		}
	}
	sink := vat.NewTable(vat.Handle(schema.Sink_write, func(_ struct{}, c vat.Call[schema.Sink_write_Params, vat.Empty]) error {
		<-ctx.Done()
		return ctx.Err()
	}))
	for range 600 {
		c, err := client.Dial(ctx, loc)
		if err != nil {
			break
		}
		t.Cleanup(func() { c.Close() })
		d := c.Dir(ctx)
		if _, err := d.Stat(ctx); err != nil {
			break
		}
		conns++
		for k := range 4 {
			f := d.OpenFile(fmt.Sprint("f", 300+k))
			a := vat.Send(ctx, f.Cap(), schema.File_stream, func(p schema.File_stream_Params, caps *vat.Caps) error {
				return p.SetSink(caps.Put(vat.Serve(sink, struct{}{})))
			})
			t.Cleanup(func() { a.Release(); f.Close() })
		}
	}
	last := int64(-1)
	waitFor(patience, func() bool { // until there are no more of them
		time.Sleep(50 * time.Millisecond)
		s, err := h.console().Status(context.Background(), false)
		ok(t, err)
		more := s.Streams > last
		last = s.Streams
		return !more
	})
	return fmt.Sprintf("%d connections, %d streams, %d reads", conns, last, kept)
}
