package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"capd/config"
)

type snapshotCommand struct {
	Path  string `arg:"" optional:"" help:"Any directory of the namespace (default: all of it)."`
	Store string `placeholder:"DIR" help:"The content-addressed store to put it in (default: the host's own)."`
	Pin   string `placeholder:"NAME" help:"Keep it under this name (default: its digest)."`
	stateFlag
}

func (snapshotCommand) Help() string {
	return `Prints the root's digest: 64 hexadecimal digits that identify the whole tree. The same tree has the
same digest everywhere. capd mount PATH cas:#DIGEST mounts it. The snapshot is kept until capd
snapshots --forget. It does not have what the mounts withhold, nor FIFOs, sockets and devices.

Examples:
  capd snapshot project
  capd mount before cas:#$(capd snapshot project)`
}

func (c *snapshotCommand) Run(e *env) error {
	fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	store := c.Store
	if store != "" && !strings.Contains(store, "://") {
		if store, err = filepath.Abs(store); err != nil {
			return err
		}
	}
	p := newProgress(e, nil, "stored")
	defer p.end()
	s, err := fs.Snapshot(e, trimPath(c.Path), store, c.Pin, p.count)
	if err != nil {
		return err
	}
	p.end()
	e.done("the tree is stored and kept; its digest is %s", s.Digest)
	fmt.Fprintln(e.stdout, s.Digest)
	if isTerminal(e.stderr) {
		fmt.Fprintf(e.stderr, "%s, %s (%s of it new)\n", count(int(s.Files), "file"), config.Size(s.Bytes), config.Size(s.New))
	}
	return nil
}
