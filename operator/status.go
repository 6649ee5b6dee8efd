package operator

import "time"

// Process is what only the serving program knows of its process. -1 means unknown.
type Process struct{ Connections, Descriptors int64 }

// Status is the state of a host at one moment: schema.Status in Go.
type Status struct {
	Process
	Version     string
	Uptime      time.Duration
	Grants      int
	OpenNodes   int64
	Streams     int64
	Goroutines  int
	Threads     int // of the operating system
	HeapBytes   uint64
	MemoryBytes uint64
}
