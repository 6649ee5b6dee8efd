package membrane

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"capd/vfs"
)

// A reader that a view gives to another view below it has released the memory when it
// returns. Run with -race.
func TestStagedReaderLetsGo(t *testing.T) {
	v := Guarded(empty{}, NewGate()).(*dirView)
	tg, err := v.target(t.Context(), "f", vfs.CheckName, noWrite, false)
	if err != nil {
		t.Fatal(err)
	}
	buf, p, next := make([]byte, 64<<10), make([]byte, 64<<10), make([]byte, 64<<10)
	for i := range 20000 {
		ctx, cancel := context.WithCancel(t.Context())
		outer := &stagedReader{ctx: ctx, r: bytes.NewReader(buf), t: tg, room: boundless, dead: make(chan struct{})}
		inner := &stagedReader{ctx: ctx, r: outer, t: tg, room: boundless, dead: make(chan struct{})}
		go func() {
			for range i % 8 {
				runtime.Gosched()
			}
			cancel()
		}()
		_, _ = inner.Read(p)
		copy(buf, next) // the connection's next message
		cancel()
	}
}

type empty struct{ vfs.Dir }
