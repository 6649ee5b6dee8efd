package main

import (
	"fmt"
	"strings"

	"capd/client/console"
	"capd/config"
	"capd/operator"
	"capd/server"
	"capd/vfs"
)

// virtualFS connects to the running host and returns its namespace.
func (f stateFlag) virtualFS(e *env) (*console.VirtualFs, error) {
	con, err := f.console(e)
	if err != nil {
		return nil, err
	}
	return con.VirtualFs(e)
}

type mountsCommand struct {
	JSON bool `name:"json" help:"Print a JSON array, in byte order of paths."`
	stateFlag
}

func (mountsCommand) Help() string {
	return `The column Changes marks mounts with changes that wait for capd apply, commit or revert. capd diff
shows them.

Examples:
  capd mounts
  capd mounts --json | jq -r '.[] | select(.changes) | .path'`
}

func (c *mountsCommand) Run(e *env) error {
	fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	all, err := fs.Mounts(e)
	if err != nil {
		return err
	}
	p := newPainter(e.stdout)
	return printList(e, c.JSON, all, "PATH\tURL\tMODE\tDETAIL", func(m operator.Mount) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s", p.dir(operator.Place(m.Path)), vfs.Printable(m.URL), modeOf(m.Attenuation), detailText(m))
	})
}

// detailText returns what the store of a mount is and whether changes wait there, for
// people.
func detailText(m operator.Mount) string {
	detail := vfs.Printable(m.Detail)
	switch {
	case m.Changes && m.Kept:
		detail += ", changes (kept)"
	case m.Changes:
		detail += ", changes"
	}
	return strings.TrimPrefix(detail, ", ")
}

func modeOf(a operator.Attenuation) string {
	if a.ReadOnly {
		return "read-only"
	}
	return "read-write"
}

type mountCommand struct {
	Path     string      `arg:"" help:"Where it appears, such as ref/main."`
	URL      string      `arg:"" name:"url" help:"What appears there: physical:DIR, git:REPO#REV, memory:?max=SIZE, cas:DIR#DIGEST or overlay:URL."`
	ReadOnly bool        `help:"Every change answers readOnly."`
	NoLinks  bool        `help:"Refuse links instead of following those that stay within."`
	Deny     []string    `sep:"none" placeholder:"PATTERN" help:"Withhold paths that match, instead of the usual list; may be repeated; one empty pattern for none."`
	Ask      []string    `sep:"none" placeholder:"PATTERN" help:"Have an approval asked for before paths that match are changed, instead of the usual list; likewise."`
	Bytes    config.Size `placeholder:"SIZE" help:"How much the mount may grow, such as 64MiB."`
	Nodes    int64       `placeholder:"N" help:"How many files, directories and links may be added."`
	stateFlag
}

func (mountCommand) Help() string {
	return `It appears at once in every grant that reaches the path, and hides what was there. It is mounted
again whenever the host starts, until capd unmount.

  physical:DIR          a directory of this machine
  git:REPO#REV          a commit, branch or tag; git:REPO?writable#main takes changes, which
                        capd commit commits; git:REPO?follow#main always shows the newest commit;
                        git:REPO?writable&keep#main keeps the changes for the next start of the
                        host; REV:SUBDIR is a part
  memory:?max=64MiB     memory, gone with the mount
  cas:DIR#DIGEST        a snapshot, as capd snapshot prints it; cas:#DIGEST is in the host's own store;
                        cas:grpc://HOST:PORT/INSTANCE#DIGEST/SIZE is in a remote-execution CAS
  overlay:URL           any of these, copy on write: see capd diff, apply and revert;
                        overlay:keep:URL keeps the changes for the next start of the host, and
                        overlay:upper=DIR:URL keeps them in DIR

Changes that are not kept are held in memory: at most 1 GiB in a git mount and 64 MiB in an overlay,
unless the URL says max=SIZE. A write beyond that answers quota.

A directory is relative to the current one. In it, write %, ? and # as %25, %3F and %23.

Examples:
  capd mount ref/main git:.#main
  capd mount draft overlay:physical:.
  capd mount draft overlay:keep,max=1GiB:git:.#main
  capd mount scratch 'memory:?max=1GiB'
  capd mount vendor physical:../vendor --read-only --deny '**/*.key' --deny '**/.env'`
}

func (c *mountCommand) Run(e *env) error {
	url, err := server.AbsoluteURL(c.URL)
	if err != nil {
		return err
	}
	fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	err = fs.Mount(e, path, url, operator.Attenuation{
		ReadOnly: c.ReadOnly, NoLinks: c.NoLinks, Deny: patterns(c.Deny), Ask: patterns(c.Ask), Bytes: int64(c.Bytes), Nodes: c.Nodes,
	})
	if err != nil {
		return err
	}
	e.result("mounted %s at %s", vfs.Printable(url), operator.Place(path))
	return nil
}

// patterns returns the given patterns. A single empty one means an empty list,
// and none means nil.
func patterns(given []string) []string {
	if len(given) == 1 && given[0] == "" {
		return []string{}
	}
	return given
}

type unmountCommand struct {
	Path  string `arg:"" help:"Where it is mounted."`
	Force bool   `help:"Unmount even if changes wait there, and drop them."`
	stateFlag
}

func (unmountCommand) Help() string {
	return `Everything that guests have open there is stale at once. The content of a memory mount is lost. If
changes wait there that were neither applied nor committed, unmount needs --force. Changes that are
kept stay: mount the same URL there again to see them, or see capd kept.

Examples:
  capd unmount scratch`
}

func (c *unmountCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	fs, err := con.VirtualFs(e)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	all, err := fs.Mounts(e)
	if err != nil {
		return err
	}
	again := ""
	for _, m := range all {
		switch {
		case m.Path != path || !m.Changes:
		case m.Kept:
			again = fmt.Sprintf("; the changes that wait there are kept; to see them again: %s mount %s %s%s", self(), operator.Quote(path), operator.Quote(m.URL), c.flag())
		case !c.Force:
			return vfs.At(path, vfs.Errorf(vfs.Busy, "changes wait here, as capd diff shows; apply, commit or revert them, or drop them with --force"))
		}
	}
	if err := fs.Unmount(e, path); err != nil {
		return err
	}
	e.result("unmounted %s%s", operator.Place(path), again)
	return c.stale(e, con, path, all)
}

// stale names the grants that led into what was mounted at path. all are all
// mounts.
func (c *unmountCommand) stale(e *env, con *console.Console, path string, all []operator.Mount) error {
	gs, err := con.Grants(e)
	if err != nil {
		return err
	}
	var ids []string
	for _, g := range gs {
		if at := innermost(all, g.Path); at >= 0 && all[at].Path == path && g.Path != "" && g.State != operator.Revoked {
			ids = append(ids, g.ID+" of "+g.Guest)
		}
	}
	if len(ids) > 0 {
		fmt.Fprintf(e.stderr, "capd: these grants led there, and are stale now; capd revoke removes them: %s\n", strings.Join(ids, ", "))
	}
	return nil
}
