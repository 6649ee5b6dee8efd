package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"capd/database"
	"capd/record"
	"capd/state"
)

// Bounds of what refused calls leave on disk, however many there are.
const (
	mostDenials     = 6*17 + 17*10 // entries of the record within ten minutes: after 1, 2, 4 … 32 s, then each minute
	mostDeniedBytes = mostDenials * 2 << 10
)

// refusedAtOnce is how many calls that are refused a connection makes at once, at most.
const refusedAtOnce = 16

// refusedRows make calls that are refused, each at a path of its own.
func refusedRows() []fairRow {
	return []fairRow{{name: "refused calls, 16 connections", conns: 16, attack: refusedPuts, alike: puts, lay: func(tr *trial) { tr.mkdirs(".git/hooks") }, over: func(tr *trial) { tr.leavesLittle("askDenied") }}}
}

func refusedPuts(a *aggressor) {
	var n atomic.Int64
	a.each(func(_ int, g *grip) {
		g.loop(refusedAtOnce, func(q uint32) []call {
			return []call{putAt(q, g.top, fmt.Sprintf("project/.git/hooks/%d", n.Add(1)), nil)}
		})
	})
}

// leavesLittle looks at what the calls that were refused with that code have left on disk.
func (tr *trial) leavesLittle(code string) {
	var entries, bytes int
	var counted int64
	waitFor(mostWait, func() bool { // they are written after a second
		entries, bytes, counted = tr.denials()
		return entries > 0
	})
	refused, underWay := tr.last.Refused[code], int64(tr.row.conns)*refusedAtOnce
	tr.Logf("%d calls refused; the record has %d entries for %d of them so far, %d bytes", refused, entries, counted, bytes)
	if refused == 0 || entries == 0 || counted > refused+underWay {
		tr.breaks("%d calls were refused, and there are %d entries for %d", refused, entries, counted)
	}
	if entries > mostDenials || bytes > mostDeniedBytes {
		tr.breaks("refused calls have left %d entries, and %d bytes", entries, bytes)
	}
}

// denials returns how many entries of refused calls there are, of how many bytes, and how many calls they stand for.
func (tr *trial) denials() (entries, bytes int, calls int64) {
	ctx := context.Background()
	view, err := database.OpenView(ctx, state.Dir(tr.host.state))
	ok(tr, err)
	defer view.Close()
	for e, err := range record.Entries(ctx, view, record.Query{Kinds: []record.Kind{record.Denied}}) {
		ok(tr, err)
		text, err := json.Marshal(e)
		ok(tr, err)
		entries, bytes, calls = entries+1, bytes+len(text), calls+e.Times
	}
	return entries, bytes, calls
}
