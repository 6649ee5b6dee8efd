package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"capd/backend/cas"
	"capd/config"
	"capd/server"
	"capd/state"
	"capd/vfs"
)

type snapshotsCommand struct {
	Store   string `placeholder:"DIR" help:"The store (default: the host's own)."`
	Forget  string `placeholder:"NAME" help:"Forget this snapshot; --collect then removes what only it needed."`
	Collect bool   `help:"Remove what no snapshot and no mount needs, unless it was stored within the last hour."`
	JSON    bool   `name:"json" help:"Print a JSON array, or with --collect an object."`
	stateFlag
}

func (snapshotsCommand) Help() string {
	return `Shows when each was made, of which path of the host's tree, and its size. Hosts may use the store at
the same time.

Examples:
  capd snapshots
  capd snapshots --forget before
  capd snapshots --collect`
}

func (c *snapshotsCommand) Run(e *env) error {
	s, err := c.store()
	if err != nil {
		return err
	}
	if c.Forget != "" {
		if err := s.Unpin(e, c.Forget); err != nil {
			return vfs.At(c.Forget, err)
		}
		e.result("forgot %s", vfs.Printable(c.Forget))
	}
	if c.Collect {
		return c.collect(e, s)
	}
	if c.Forget != "" {
		return nil
	}
	pins, err := s.Pins(e)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, pins, "NAME\tMADE\tOF\tFILES\tSIZE\tROOT", func(p cas.Pin) string {
		of, files, size := "-", "-", "-"
		if p.Of != "" {
			of, files, size = vfs.Printable(p.Of), strconv.FormatInt(p.Files, 10), config.Size(p.Bytes).String()
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", vfs.Printable(p.Name), p.Made.Local().Format(time.DateTime), of, files, size, p.Root)
	})
}

func (c *snapshotsCommand) store() (*cas.Store, error) {
	dir := c.Store
	if dir == "" {
		st, err := c.open()
		if err != nil {
			return nil, err
		}
		if _, err := os.Stat(string(st)); err != nil {
			return nil, vfs.Errorf(vfs.NotFound, "there is no state directory %s, and no snapshots; see --state: %v", st, state.Reason(err))
		}
		dir = st.Contents()
	}
	if _, err := os.Stat(dir); err != nil && c.Store != "" {
		return nil, vfs.Errorf(vfs.NotFound, "there is no store %s: %v", dir, state.Reason(err))
	}
	return server.OpenContents(dir)
}

func (c *snapshotsCommand) collect(e *env, s *cas.Store) error {
	p := newProgress(e, nil, "looked at")
	defer p.end()
	r, err := s.Collect(e, cas.CollectOptions{Progress: func(r cas.Report) { p.count(r.Blobs, r.Bytes) }})
	if err != nil {
		return err
	}
	p.end()
	if c.JSON {
		e.done("removed %s", count(int(r.Removed), "blob"))
		return printJSON(e.stdout, r)
	}
	e.result("removed %s of %d, %s", count(int(r.Removed), "blob"), r.Blobs, config.Size(r.Freed))
	return nil
}
