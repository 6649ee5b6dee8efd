package editing

import (
	"context"
	"testing"
	"testing/synctest"

	"capd/vfs"
)

// One place is edited by one at a time, and others meanwhile. A place that nobody edits is forgotten.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, leaveA := join("a")
		b, leaveB := join("b")
		a.taken <- struct{}{}
		b.taken <- struct{}{} // does not wait for a
		again, leaveAgain := join("a")
		if got, err := again.wait(t.Context()); got || vfs.CodeOf(err) != vfs.Busy {
			t.Errorf("a turn that does not end: %v, %v", got, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got, err := again.wait(ctx); got || err != context.Canceled {
			t.Errorf("a call that has ended: %v, %v", got, err)
		}
		<-a.taken
		if got, err := again.wait(t.Context()); !got || err != nil {
			t.Errorf("a free turn: %v, %v", got, err)
		}
		leaveA()
		leaveB()
		if n := len(turns.at); n != 1 {
			t.Errorf("%d places are edited, want 1", n)
		}
		leaveAgain()
		if n := len(turns.at); n != 0 {
			t.Errorf("%d places are edited, want 0", n)
		}
	})
}
