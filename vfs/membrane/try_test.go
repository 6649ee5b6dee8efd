package membrane_test

import (
	"context"
	"testing"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// TestTryingBehindGuards: nothing is tried behind a guard that may wait. A guard around
// changes alone does not prevent it. The gate is asked.
func TestTryingBehindGuards(t *testing.T) {
	asked := 0
	count := func(ctx context.Context, _ membrane.Op, do check.Do) (vfs.Effect, error) {
		asked++
		return do(ctx)
	}
	read := func(f vfs.File) error {
		_, err := f.ReadAt(vfs.Trying(), make([]byte, 1), 0)
		return err
	}

	d, _, _ := check.Guarded(t, check.Sample, membrane.Guard{Around: count})
	if f := check.FileAt(t, d, "f"); vfs.CanTry(f) || vfs.CanTry(d) {
		t.Error("behind a guard around everything it can be tried")
	} else if _, err := vfs.Walk(vfs.Trying(), d, "f"); err != vfs.ErrWouldBlock {
		t.Errorf("a walk behind it: %v", err)
	}

	d, gate, _ := check.Guarded(t, check.Sample, membrane.Guard{Around: count, Changes: true})
	f := check.FileAt(t, d, "f")
	asked = 0
	if !vfs.CanTry(f) {
		t.Fatal("behind a guard around changes it cannot be tried")
	}
	check.OK(t, read(f))
	_, err := vfs.Walk(vfs.Trying(), d, "f")
	check.OK(t, err)
	if asked != 0 {
		t.Errorf("a guard around changes was asked %d times about looks", asked)
	}
	check.OK(t, f.Truncate(t.Context(), 1, vfs.If{}))
	if asked != 1 {
		t.Errorf("a guard around changes was asked %d times about one", asked)
	}
	check.OK(t, gate.Revoke())
	check.Is(t, "a try after a revoke", read(f), vfs.Revoked)
	_, err = f.Stat(vfs.Trying())
	check.Is(t, "a try to Stat after a revoke", err, vfs.Revoked)
}
