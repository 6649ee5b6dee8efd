package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"capd/client"
	"capd/meter"
	"capd/vfs"
)

// list prints what was shared from the capability.
func (c *attenuateCommand) list(e *env) error {
	if c.making() {
		return usageError{"--list takes only --path and --json besides"}
	}
	conn, n, err := c.node(e, trimPath(c.Path), true)
	if err != nil {
		return err
	}
	all, err := conn.Shares(e, n)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "ID\tPATH\tRIGHTS\tMADE\tENDS", func(s client.Share) string {
		path := cmp.Or(shownPath(s.Path), "(everything)")
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s", s.ID, path, s.Rights, atTime(s.MadeMs), endOf(s))
	})
}

// revoke takes a share back.
func (c *attenuateCommand) revoke(e *env) error {
	if c.making() || c.JSON {
		return usageError{"--revoke takes only --path besides"}
	}
	conn, n, err := c.node(e, trimPath(c.Path), true)
	if err != nil {
		return err
	}
	if err := conn.RevokeShare(e, n, c.Revoke); err != nil {
		return err
	}
	e.result("revoked %s", vfs.Printable(c.Revoke))
	return nil
}

// making reports whether a flag is given that is for a new locator alone.
func (c *attenuateCommand) making() bool {
	return c.ReadOnly || c.Rights != 0 || c.Expires != 0 || c.Unused != 0 || c.Uses != 0 || len(c.Limit) > 0
}

func atTime(ms int64) string { return time.UnixMilli(ms).Local().Format("2006-01-02 15:04") }

// endOf says what ends a share by itself, and what it may store.
func endOf(s client.Share) string {
	var all []string
	if s.ExpiresMs != 0 {
		all = append(all, "at "+atTime(s.ExpiresMs))
	}
	if s.UnusedMs != 0 {
		all = append(all, "when unused for "+lasting(s.UnusedMs))
	}
	if s.UsesLeft != 0 {
		all = append(all, count(int(max(s.UsesLeft, 0)), "use")+" left")
	}
	if s.StoredBytes != 0 {
		all = append(all, amount(meter.StoredBytes, s.StoredBytes)+" at most")
	}
	if s.StoredNodes != 0 {
		all = append(all, fmt.Sprintf("%d nodes at most", s.StoredNodes))
	}
	return cmp.Or(strings.Join(all, ", "), "with its parent")
}
