package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"capd/client/console"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
)

// here serves the directory in which capd run was called, to this process only.
func (c *runCommand) here(e *env, st state.Dir) (*source, error) {
	one := &server.Server{State: string(st)}
	if err := usual(one, ".", false); err != nil {
		return nil, err
	}
	one.Mounts = one.Mounts[:1]
	if err := one.Check(); err != nil {
		return nil, err
	}
	w, err := server.OpenFS(e, st, server.FSOptions{Logf: e.logf})
	if err != nil {
		return nil, err
	}
	s := &source{fs: w, ctx: e, close: func() { w.Close() }}
	if err = w.Mount(e, projectAt, one.Mounts[0].URL, server.Attenuation{}); err == nil {
		at := strings.TrimSuffix(vfs.Join(projectAt, trimPath(c.Path)), "/")
		s.name = w.Target(at)
		s.tree = s.name
		s.dir, err = w.Dir(e, at)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// tellHere says what is not for a run on the directory in which capd run was called: the tree of $CAPD_CAP, and the rules of
// a running host that serves this directory.
func (c *runCommand) tellHere(e *env) {
	if os.Getenv("CAPD_CAP") != "" {
		e.logf("capd: on the directory that you are in; for the tree of $CAPD_CAP say --cap \"$CAPD_CAP\"")
	}
	if at, ok := c.servedAt(e); ok {
		e.logf("capd: a host serves this directory at %s; its rules, approvals and record are not for this run; for them say --cap with a locator from capd grant", operator.Place(at))
	}
}

// hostPatience is how long capd run waits for a host that it only asks what it serves.
const hostPatience = time.Second

// servedAt returns where the running host serves the current directory, or one above it.
func (c *runCommand) servedAt(e *env) (path string, ok bool) {
	st, err := c.stateFlag.open()
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(e, hostPatience)
	defer cancel()
	con, err := console.Dial(ctx, st.Control())
	if err != nil {
		return "", false // no host runs
	}
	defer con.Close()
	fs, err := con.VirtualFs(ctx)
	if err != nil {
		return "", false
	}
	all, err := fs.Mounts(ctx)
	if err != nil {
		return "", false
	}
	return around(all)
}

// around returns the path of the current directory in the first of all that shows it, or one above it, also in an overlay.
func around(all []operator.Mount) (at string, ok bool) {
	here, err := filepath.Abs(".")
	dir := here
	for last := ""; err == nil && dir != last; last, dir = dir, filepath.Dir(dir) {
		for _, m := range all {
			if !operator.InScopes(m.Path) && strings.HasSuffix(m.URL, server.PhysicalURL(dir)) {
				rest, err := filepath.Rel(dir, here)
				return trimPath(path.Join(m.Path, filepath.ToSlash(rest))), err == nil
			}
		}
	}
	return "", false
}
