package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"capd/authority"
	"capd/client"
	"capd/database"
	"capd/history"
	"capd/host"
	"capd/locator"
	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/server"
	"capd/shelf"
	"capd/state"
	"capd/vfs"
)

// journals compares two hosts that both keep a record, and of which one keeps what changes displace. Each is
// made of the parts of which package server makes a host, since that has no record without a journal.
func journals(o *Options, dir string) *world {
	var with, without journalled
	put := func(j *journalled) figure {
		content := bytes.Repeat([]byte("capd"), contentSize/4)
		n := uint32(0)
		return p50(o.Slice, func(ctx context.Context) error {
			n++
			copy(content, fmt.Sprintf("%08x", n)) // so that each put changes something
			_, err := j.dir.Put(ctx, "file", bytes.NewReader(content), vfs.If{})
			return err
		})
	}
	return &world{
		rows: []*contest{
			{Row{Name: "put 4 KiB over a file, recorded and journalled, p50", Floor: "the same without a journal", Unit: "µs", Target: 1.05},
				put(&without), put(&with)},
		},
		setup: func(ctx context.Context) error {
			return errors.Join(with.open(ctx, filepath.Join(dir, "with"), true), without.open(ctx, filepath.Join(dir, "without"), false))
		},
		close: func() error { return errors.Join(with.close(), without.close()) },
	}
}

// journalled is a host with a directory and a record, and a guest of it over a Unix socket.
type journalled struct {
	dir  *client.Dir
	ends []func() error // in the order in which they were opened
}

func (j *journalled) open(ctx context.Context, dir string, keeps bool) error {
	tree := filepath.Join(dir, "tree")
	if err := os.MkdirAll(tree, 0o700); err != nil {
		return err
	}
	st, err := state.Open(filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	if err := st.Make(); err != nil {
		return err
	}
	db, err := database.Open(st, database.Options{})
	if err != nil {
		return err
	}
	j.ends = append(j.ends, db.Close)
	key, err := st.RecordKey()
	if err != nil {
		return err
	}
	log, err := record.Open(db, record.Options{Key: key})
	if err != nil {
		return err
	}
	j.ends = append(j.ends, log.Close)
	fs, err := server.OpenFS(ctx, st, server.FSOptions{})
	if err != nil {
		return err
	}
	j.ends = append(j.ends, fs.Close)
	if err := fs.Mount(ctx, "project", server.PhysicalURL(tree), operator.Attenuation{}); err != nil {
		return err
	}
	var kept *history.Journal
	if keeps {
		if kept, err = j.journal(st, db, fs); err != nil {
			return err
		}
	}
	a := authority.Open(fs.Tree(), authority.Options{Meters: meter.NewHost(host.Limits()), DB: db, Record: log, History: kept, Places: fs})
	j.ends = append(j.ends, a.Close)
	fs.Guard(a.Own())
	return j.serve(ctx, a, filepath.Join(dir, "socket"))
}

// journal opens the journal of a host.
func (j *journalled) journal(st state.Dir, db *database.DB, fs *server.FS) (*history.Journal, error) {
	if err := state.MakeDir(st.Shelf()); err != nil {
		return nil, err
	}
	s, err := shelf.OpenAmbient(st.Shelf())
	if err != nil {
		return nil, err
	}
	j.ends = append(j.ends, s.Close)
	return history.Open(db, s, fs.Lasting, history.Options{})
}

// serve serves the directory on a socket, and dials.
func (j *journalled) serve(ctx context.Context, a *authority.Host, socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	h, served := host.New(a, host.Options{}), make(chan error, 1)
	go func() { served <- h.ServeGuests(l) }()
	j.ends = append(j.ends, func() error { return errors.Join(h.Close(), <-served) })
	_, secret, err := a.Grant(ctx, "bench", "project", false)
	if err != nil {
		return err
	}
	conn, err := client.Dial(ctx, locator.Locator{Socket: socket, Secret: secret}.String())
	if err != nil {
		return err
	}
	j.ends = append(j.ends, conn.Close)
	j.dir = conn.Dir(ctx)
	_, err = j.dir.Put(ctx, "file", bytes.NewReader(nil), vfs.If{Absent: true})
	return err
}

func (j *journalled) close() (err error) {
	for i := len(j.ends) - 1; i >= 0; i-- {
		err = errors.Join(err, j.ends[i]())
	}
	return err
}
