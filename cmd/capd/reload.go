package main

import (
	"errors"

	"capd/server"
	"capd/vfs"
)

// reloads reads the configuration again whenever reload is told, until e ends.
func (c *serveCommand) reloads(e *env, s *server.Server, reload <-chan struct{}) {
	for {
		select {
		case <-e.Done():
			return
		case <-reload:
			c.reload(e, s)
		}
	}
}

// reload makes s what the configuration says now, and prints the locators of new grants. It logs what is wrong.
func (c *serveCommand) reload(e *env, s *server.Server) {
	next, guests, err := c.server(e)
	var all []*server.Granted
	if err == nil {
		all, err = s.Reload(e, next, guests)
	}
	name := vfs.Printable(c.Config)
	if err != nil {
		report(e, err)
		e.logf("capd: reloading %s has failed; the host goes on", name)
		return
	}
	for _, g := range all {
		if g.Locator != "" && !c.JSON {
			c.greetGuest(e, g)
		}
	}
	if c.JSON {
		err = c.greetJSON(e, s, s.Notes(), all)
	}
	if err = errors.Join(err, deliver(e, s, all)); err != nil {
		e.logf("capd: a new locator could not be printed, and its grant was taken back: %v", err)
	}
	e.logf("capd: reloaded %s: %s, %s%s", name, count(len(s.Mounted()), "mount"), count(len(all), "guest"), invitations(next))
}
