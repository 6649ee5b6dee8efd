package operator

import "time"

// Process is what only the serving program knows of its process. -1 means unknown.
type Process struct {
	Connections int64 `json:"connections"`
	Descriptors int64 `json:"descriptors"`
}

// Status is the state of a host at one moment: schema.Status in Go.
type Status struct {
	Version   string        `json:"-"`
	Uptime    time.Duration `json:"-"`
	Grants    int           `json:"grants"`
	OpenNodes int64         `json:"openNodes"`
	Streams   int64         `json:"streams"`
	Process
	Goroutines  int    `json:"goroutines"`
	Threads     int    `json:"threads"` // of the operating system
	HeapBytes   uint64 `json:"heapBytes"`
	MemoryBytes uint64 `json:"memoryBytes"`
	Unrecorded  bool   `json:"unrecorded"` // the host keeps no record
}
