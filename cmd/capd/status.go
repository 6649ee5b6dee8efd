package main

import (
	"fmt"
	"time"
)

type statusCommand struct {
	Collect bool `help:"Collect garbage first: the heap is then what is held and no more."`
	JSON    bool `name:"json" help:"Print a JSON object."`
	stateFlag
}

func (statusCommand) Help() string {
	return `Open nodes and streams are the guests'; they count against what a grant may hold.
What a host cannot tell is -1, or "unknown".

Examples:
  capd status
  capd status --collect --json | jq .heapBytes`
}

// statusJSON is a host's status as --json prints it.
type statusJSON struct {
	Version     string `json:"version"`
	UptimeMs    int64  `json:"uptimeMs"`
	Grants      int    `json:"grants"`
	OpenNodes   int64  `json:"openNodes"`
	Streams     int64  `json:"streams"`
	Connections int64  `json:"connections"`
	Descriptors int64  `json:"descriptors"`
	Goroutines  int    `json:"goroutines"`
	HeapBytes   uint64 `json:"heapBytes"`
	MemoryBytes uint64 `json:"memoryBytes"`
}

func (c *statusCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	defer con.Close()
	s, err := con.Status(e, c.Collect)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(e.stdout, statusJSON{
			s.Version, s.Uptime.Milliseconds(), s.Grants, s.OpenNodes, s.Streams, s.Connections, s.Descriptors,
			s.Goroutines, s.HeapBytes, s.MemoryBytes,
		})
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
	fmt.Fprintf(w, "heap\t%s\n", mib(s.HeapBytes))
	fmt.Fprintf(w, "memory\t%s\n", mib(s.MemoryBytes))
	return w.Flush()
}

func known(n int64) string {
	if n < 0 {
		return "unknown"
	}
	return fmt.Sprint(n)
}

func mib(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
