package vfs_test

import (
	"context"
	"sync/atomic"

	"capd/vfs"
)

// counting counts the nodes that are open below it.
type counting struct {
	vfs.Dir
	open *atomic.Int64
	shut atomic.Bool
}

func (c *counting) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := c.Dir.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	switch n := n.(type) {
	case vfs.Dir:
		return &counting{Dir: n, open: c.open}, nil
	case vfs.File:
		return &countingFile{File: n, open: c.open}, nil
	default:
		return &countingLink{Link: n.(vfs.Link), open: c.open}, nil
	}
}

func (c *counting) Close() error {
	if !c.shut.Swap(true) {
		c.open.Add(-1)
	}
	return c.Dir.Close()
}

type countingFile struct {
	vfs.File
	open *atomic.Int64
	shut atomic.Bool
}

func (c *countingFile) Close() error {
	if !c.shut.Swap(true) {
		c.open.Add(-1)
	}
	return c.File.Close()
}

type countingLink struct {
	vfs.Link
	open *atomic.Int64
	shut atomic.Bool
}

func (c *countingLink) Close() error {
	if !c.shut.Swap(true) {
		c.open.Add(-1)
	}
	return c.Link.Close()
}
