package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"capd/client"
	"capd/server"
	"capd/vfs"
)

const (
	contentSize = 4 << 10
	manyWriters = 16
)

// guest is a host with a directory, and a guest of it over a Unix socket.
type guest struct {
	host *server.Server
	conn *client.Conn
	dir  *client.Dir
}

// hosts compares two hosts that differ in the record alone.
func hosts(o *Options, dir string) *world {
	var with, without guest
	content := bytes.Repeat([]byte("capd"), contentSize/4)
	put := func(g *guest) func(context.Context, int) error {
		return func(ctx context.Context, worker int) error {
			_, err := g.dir.Put(ctx, fmt.Sprint("file", worker), bytes.NewReader(content), vfs.If{})
			return err
		}
	}
	one := func(g *guest) figure {
		return p50(o.Slice, func(ctx context.Context) error { return put(g)(ctx, 0) })
	}
	read := func(g *guest) figure {
		into := make([]byte, contentSize)
		return p50(o.Slice, func(ctx context.Context) error {
			f := g.dir.OpenFile("read")
			defer f.Close()
			n, err := f.ReadAt(ctx, into, 0)
			if n != contentSize {
				return errors.Join(err, fmt.Errorf("it read %d bytes", n))
			}
			return nil
		})
	}
	grant := func(g *guest) figure {
		n := 0
		return p50(o.Slice, func(ctx context.Context) error {
			n++
			_, err := g.host.Grant(ctx, server.Guest{Name: fmt.Sprint("guest", n), Path: "project"})
			return err
		})
	}
	const floor = "the same with record: off"
	return &world{
		rows: []*contest{
			{Row{Name: "put 4 KiB, recorded, p50", Floor: floor, Unit: "µs", Target: 1.35}, one(&without), one(&with)},
			{Row{Name: fmt.Sprintf("put 4 KiB × %d, recorded", manyWriters), Floor: floor, Unit: "/s", More: true, Target: 0.7},
				rate(o.Slice, manyWriters, put(&without)), rate(o.Slice, manyWriters, put(&with))},
			{Row{Name: "by path: read 4 KiB, recorded, p50", Floor: floor, Unit: "µs", Target: 1.02}, read(&without), read(&with)},
			{Row{Name: "grant, recorded, p50", Floor: floor, Unit: "µs", Target: 1.3}, grant(&without), grant(&with)},
		},
		setup: func(ctx context.Context) error {
			return errors.Join(with.open(ctx, filepath.Join(dir, "with"), true, content), without.open(ctx, filepath.Join(dir, "without"), false, content))
		},
		close: func() error { return errors.Join(with.close(), without.close()) },
	}
}

func (g *guest) open(ctx context.Context, dir string, recorded bool, content []byte) error {
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, "read"), content, 0o600); err != nil {
		return err
	}
	g.host = &server.Server{State: filepath.Join(dir, "state"), Unrecorded: !recorded, Mounts: []server.Mount{{Path: "project", URL: server.PhysicalURL(tree)}}}
	if err := g.host.Start(ctx); err != nil {
		return err
	}
	given, err := g.host.Grant(ctx, server.Guest{Name: "bench", Path: "project"})
	if err != nil {
		return err
	}
	if g.conn, err = client.Dial(ctx, given.Locator); err != nil {
		return err
	}
	g.dir = g.conn.Dir(ctx)
	return nil
}

func (g *guest) close() (err error) {
	if g.conn != nil {
		err = g.conn.Close()
	}
	if g.host != nil {
		err = errors.Join(err, g.host.Close())
	}
	return err
}
