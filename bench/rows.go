package main

import (
	"fmt"
	"slices"

	"capd/bench/load"
)

// A slice is what a contender does for a moment, before the next contender's turn.
type slice struct {
	op          string
	size        int
	outstanding int
}

// A metric is the figure that a row takes from a slice.
type metric int

const (
	p50      metric = iota // ns
	p99                    // ns
	callRate               // per second
	byteRate               // per second
)

// lower reports whether less is better.
func (m metric) lower() bool { return m <= p99 }

func (m metric) of(r load.Result, s slice) float64 {
	switch m {
	case p50:
		return float64(r.P50)
	case p99:
		return float64(r.P99)
	case callRate:
		return float64(r.N) / float64(r.Ns) * 1e9
	}
	size := s.size
	if s.op == load.Stream || s.op == load.Download {
		size = load.StreamBytes
	}
	return float64(r.N) * float64(size) / float64(r.Ns) * 1e9
}

// A row is one figure of every contender that can do it, as a ratio to the floor's.
type row struct {
	name   string
	slice  slice
	metric metric
	to     slice   // another slice of the same contender, in place of the floor's
	target float64 // of the subject's ratio; 0: no target
}

// A table is some rows and their contenders.
type table struct {
	title   string
	subject string // the contender to which the targets apply
	ahead   bool   // the subject must also beat every peer in every row
	rows    []row
}

// has reports whether any row is about one of the operations.
func (t table) has(ops []string) bool {
	return slices.ContainsFunc(t.rows, func(r row) bool { return slices.Contains(ops, r.slice.op) })
}

func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// inFlight is how many large reads and writes are outstanding.
const inFlight = 4

var payloads = []int{4 << 10, 64 << 10, 256 << 10, 1 << 20}

// streamChunk is the size of a streamed write.
const streamChunk = 256 << 10

// callRows returns the rows about calls and payloads in memory.
func callRows() table {
	echo := func(n int) slice { return slice{load.Echo, load.EchoBytes, n} }
	chain := slice{load.Chain, load.EchoBytes, 1}
	inSequence := slice{load.ChainSeq, load.EchoBytes, 1}
	t := table{title: "Calls, and payloads in memory", subject: "vat", rows: []row{
		{name: "small call, p50", slice: echo(1), metric: p50, target: 1.2},
		{name: "small call, p99", slice: echo(1), metric: p99, target: 1.5},
		{name: "calls/s, 1 outstanding", slice: echo(1), metric: callRate, target: 0.70},
		{name: "calls/s, 16 outstanding", slice: echo(16), metric: callRate, target: 0.60},
		{name: "calls/s, 64 outstanding", slice: echo(64), metric: callRate, target: 0.65},
		{name: "chain of 5 in sequence, p50", slice: inSequence, metric: p50},
		{name: "chain of 5, pipelined / in sequence, p50", slice: chain, metric: p50, to: inSequence, target: 0.45},
	}}
	for _, n := range payloads {
		r := row{name: fmt.Sprintf("read %s × %d", size(n), inFlight), slice: slice{load.Read, n, inFlight}, metric: byteRate}
		if n >= 64<<10 {
			r.target = 0.90
		}
		t.rows = append(t.rows, r)
	}
	for _, n := range payloads {
		t.rows = append(t.rows, row{name: fmt.Sprintf("write %s × %d", size(n), inFlight), slice: slice{load.Write, n, inFlight}, metric: byteRate, target: 0.80})
	}
	t.rows = append(t.rows, row{name: fmt.Sprintf("stream, chunks of %s", size(streamChunk)), slice: slice{load.Stream, streamChunk, 1}, metric: byteRate, target: 0.80})
	return t
}

// fileRows returns the rows about files of one tree, by every contender that serves files. The floor makes
// the system calls behind each.
func fileRows() table {
	pread := func(size, n int) slice { return slice{load.Pread, size, n} }
	small := pread(4<<10, 1)
	t := table{title: "Files", subject: "capd", ahead: true, rows: []row{
		{name: "open file: read 4 KiB, p50", slice: small, metric: p50, target: 1.5},
		{name: "open file: read 4 KiB, p99", slice: small, metric: p99},
		{name: "open file: read 4 KiB × 16", slice: pread(4<<10, 16), metric: callRate},
	}}
	for _, n := range payloads[1:] {
		t.rows = append(t.rows, row{name: fmt.Sprintf("open file: read %s × %d", size(n), inFlight), slice: pread(n, inFlight), metric: byteRate})
	}
	stat, list, held := slice{load.Stat, 0, 1}, slice{load.List, load.ListedSize, 1}, slice{load.HeldList, load.ListedSize, 1}
	t.rows = append(t.rows,
		row{name: fmt.Sprintf("open directory: list %d entries, p50", load.ListedSize), slice: held, metric: p50},
		row{name: "by path: stat, p50", slice: stat, metric: p50},
		row{name: "by path: stat × 16", slice: slice{load.Stat, 0, 16}, metric: callRate},
		row{name: "by path of 5 names: stat, p50", slice: slice{load.DeepStat, 0, 1}, metric: p50},
		row{name: "by path of 5 names: whole file of 4 KiB × 4", slice: slice{load.DeepFile, 4 << 10, inFlight}, metric: byteRate},
		row{name: fmt.Sprintf("by path: list %d entries, p50", load.ListedSize), slice: list, metric: p50})
	for _, n := range payloads {
		t.rows = append(t.rows, row{name: fmt.Sprintf("by path: whole file of %s × %d", size(n), inFlight), slice: slice{load.Whole, n, inFlight}, metric: byteRate})
	}
	for _, n := range payloads {
		t.rows = append(t.rows, row{name: fmt.Sprintf("by path: whole file of %s and its version × %d", size(n), inFlight), slice: slice{load.Version, n, inFlight}, metric: byteRate})
	}
	t.rows = append(t.rows, row{name: fmt.Sprintf("by path: stream of %s", size(load.StreamBytes)), slice: slice{load.Download, 0, 1}, metric: byteRate})
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20} {
		t.rows = append(t.rows, row{name: fmt.Sprintf("by path: put %s, p50", size(n)), slice: slice{load.Put, n, 1}, metric: p50})
	}
	edit, put := slice{load.Edit, 1 << 20, 1}, slice{load.Put, 1 << 20, 1}
	t.rows = append(t.rows, row{name: fmt.Sprintf("by path: edit 1 line in %s / put it, p50", size(edit.size)), slice: edit, metric: p50, to: put, target: 1.15})
	return t
}
