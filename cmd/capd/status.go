package main

import (
	"fmt"
	"time"

	client "capd/client/console"
	"capd/operator"
)

type statusCommand struct {
	Guests  bool `help:"Show what each grant uses, its limits, and who waits."`
	Collect bool `help:"Collect garbage first, so that the heap shows only what is in use."`
	JSON    bool `name:"json" help:"Print a JSON object."`
	stateFlag
}

func (statusCommand) Help() string {
	return `Open nodes, streams and connections are those of guests; they count against the limits of grants.
The connection of this command does not count. A number that the host cannot find out is -1, or
"unknown".

--guests shows the host, each grant with its shares below it, and strangers (connections that have
shown no locator yet). It lists each kind that is used, was refused or has a limit of its own: "12
of 40 now, 128 at most" means that others hold so much that the grant can have only 40 now. Turns
are the work done in each lane, with the time it took. --json lists every kind, and the most that
was held at once (peak). docs/limits.md explains each kind; capd limit changes a limit.

Examples:
  capd status
  capd status --guests
  capd status --guests --json | jq '.grants[] | {guest, id, nodes: .kinds.nodes.used}'
  capd status --guests --json | jq '.grants[] | {guest, most: (.kinds | map_values(.peak))}'
  capd status --guests --json | jq '.grants[] | select(.lanes.heavy.waiting > 0) | .guest'
  capd status --collect --json | jq .heapBytes`
}

// statusJSON is a host's status as --json prints it.
type statusJSON struct {
	Version  string `json:"version"`
	UptimeMs int64  `json:"uptimeMs"`
	operator.Status
}

func statusToJSON(s operator.Status) statusJSON {
	return statusJSON{s.Version, s.Uptime.Milliseconds(), s}
}

func (c *statusCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	s, err := con.Status(e, c.Collect)
	if err != nil {
		return err
	}
	switch {
	case c.Guests:
		return c.guests(e, con, s)
	case c.JSON:
		return printJSON(e.stdout, statusToJSON(s))
	}
	w := newColumns(e.stdout)
	fmt.Fprintf(w, "version\t%s\n", s.Version)
	fmt.Fprintf(w, "uptime\t%v\n", s.Uptime.Round(time.Second))
	fmt.Fprintf(w, "grants\t%d\n", s.Grants)
	fmt.Fprintf(w, "open nodes\t%d\n", s.OpenNodes)
	fmt.Fprintf(w, "streams\t%d\n", s.Streams)
	fmt.Fprintf(w, "connections\t%s\n", known(s.Connections))
	fmt.Fprintf(w, "descriptors\t%s\n", known(s.Descriptors))
	fmt.Fprintf(w, "goroutines\t%d\n", s.Goroutines)
	fmt.Fprintf(w, "threads\t%d\n", s.Threads)
	fmt.Fprintf(w, "heap\t%s\n", mib(s.HeapBytes))
	fmt.Fprintf(w, "memory\t%s\n", mib(s.MemoryBytes))
	if s.Unrecorded {
		fmt.Fprintf(w, "record\toff\n")
	}
	return w.Flush()
}

func (c *statusCommand) guests(e *env, con *client.Console, s operator.Status) error {
	u, err := con.Usage(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, guestsToJSON(s, u))
	}
	return printUsage(e, s, u)
}

func known(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

func mib(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
