package vfstest

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"capd/meter"
	"capd/vfs"
)

// Yields tests that putting a whole file, in a turn of a meter, lets other calls have
// that turn between two reads, however large the file is and however fast it is read.
func Yields(t *testing.T, d vfs.Dir) {
	t.Helper()
	h := meter.NewHost(nil)
	ctx, turn, err := h.Grant("puts", nil).Begin(t.Context(), meter.Heavy)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.End()
	r := &contended{t: t, h: h, turn: turn}
	if _, err := d.Replace(ctx, "yields", r, vfs.If{}); err != nil {
		t.Fatal(err)
	}
	if !r.let {
		t.Error("nobody else had a turn before the end of what was put")
	}
}

// contended is content whose reader, after its first read, finds that others wait for
// the turn.
type contended struct {
	t     *testing.T
	h     *meter.Host
	turn  *meter.Turn
	reads int
	had   atomic.Bool // somebody else had a turn
	let   bool        // another call had a turn before all was read
}

func (c *contended) Read(p []byte) (int, error) {
	c.reads++
	switch {
	case c.reads == 1:
		c.contend()
	case c.had.Load():
		c.let = true
		return 0, io.EOF
	case c.reads > 4:
		return 0, io.EOF
	}
	return len(p), nil
}

// contend makes others wait for every turn, until c's turn has lasted long enough.
func (c *contended) contend() {
	for range c.h.Turns(meter.Heavy) - 1 {
		_, turn, err := c.h.Grant("works", nil).Begin(c.t.Context(), meter.Heavy)
		if err != nil {
			c.t.Error(err)
			return
		}
		c.t.Cleanup(turn.End)
	}
	begun := time.Now()
	go func() {
		_, turn, err := c.h.Grant("waits", nil).Begin(c.t.Context(), meter.Heavy)
		if err != nil {
			return
		}
		c.had.Store(true)
		turn.End()
	}()
	for !c.turn.Contended() || time.Since(begun) < 3*time.Millisecond { // a turn lasts at least 2 ms
		time.Sleep(100 * time.Microsecond)
	}
}
