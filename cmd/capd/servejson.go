package main

import (
	"encoding/json"
	"time"

	"capd/operator"
	"capd/server"
)

// servedJSON is what capd serve --json prints, on one line.
type servedJSON struct {
	Served    []operator.Mount `json:"served"`
	Grants    []grantedJSON    `json:"grants"`
	Listeners []string         `json:"listeners"` // the guests' socket, and each tls:HOST:PORT
	Notes     []string         `json:"notes,omitempty"`
}

// grantedJSON is a grant of the first guests. Without a locator and a file the guest has the locator already.
type grantedJSON struct {
	operator.Grant
	Made    time.Time `json:"made"`
	Locator string    `json:"locator,omitempty"`
	TLS     []string  `json:"tls,omitempty"` // the same for guests elsewhere
	File    string    `json:"file,omitempty"`
}

func (c *serveCommand) greetJSON(e *env, s *server.Server, notes []string, all []*server.Granted) error {
	out := servedJSON{Served: s.Mounted(), Grants: []grantedJSON{}, Listeners: s.Listeners(), Notes: notes}
	for _, g := range all {
		out.Grants = append(out.Grants, grantedJSON{g.Grant, g.Since.UTC(), g.Locator, g.TLS, g.File})
	}
	return json.NewEncoder(e.stdout).Encode(out)
}
