package membrane

import (
	"runtime"
	"testing"
)

// Revoking again what was revoked does not visit the gates below it again, although a
// change is in progress beside it.
func TestRevokedIsWalkedOnce(t *testing.T) {
	root := NewGate()
	defer root.Release()
	mine, err := root.derive("mine", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Release()
	for range 10 {
		g, err := mine.derive("mine", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Release()
	}
	beside := &commit{done: make(chan struct{})} // so that a revoke has to look
	if !root.enter(beside, root.word.Load()) {
		t.Fatal("no commit can begin")
	}
	defer root.leave(beside)
	walked := func() int {
		mine.tree.mu.Lock()
		defer mine.tree.mu.Unlock()
		return len(mine.belowBut((*Gate).isQuiet))
	}
	under := &commit{done: make(chan struct{})}
	if !mine.enter(under, mine.word.Load()) {
		t.Fatal("no commit can begin")
	}
	ended := make(chan error)
	go func() { ended <- mine.Revoke() }()
	for !mine.Revoked() {
		runtime.Gosched()
	}
	if n := walked(); n != 11 {
		t.Errorf("with a change under way %d gates are looked at, want 11", n)
	}
	mine.leave(under)
	close(under.done)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := mine.Revoke(); err != nil {
			t.Fatal(err)
		}
	}
	if n := walked(); n != 0 {
		t.Errorf("%d gates are looked at again", n)
	}
	if root.quiet {
		t.Error("the gate above is passed over")
	}
}
