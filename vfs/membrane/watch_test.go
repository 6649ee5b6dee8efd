package membrane_test

import (
	"errors"
	"reflect"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// A watch on nested membranes is told by any of them, and ends.
func TestWatchNestedMembranes(t *testing.T) {
	for _, outer := range []bool{true, false} {
		in, out := membrane.NewGate(), membrane.NewGate()
		d := membrane.Guarded(membrane.Guarded(memory.New(memory.Limits{}).Root(), in), out)
		told, stopped := 0, 0
		stop := membrane.OnRevoke(d, func(error) { stopped++ })
		defer membrane.OnRevoke(d, func(err error) {
			if !errors.Is(err, vfs.Revoked) {
				t.Fatalf("%v, want %v", err, vfs.Revoked)
			}
			told++
		})()
		stop()
		stop()
		if outer {
			check.OK(t, out.Revoke())
		} else {
			check.OK(t, in.Revoke())
		}
		check.OK(t, out.Revoke())
		check.OK(t, in.Revoke())
		if got, want := told, 1; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if got := stopped; got != 0 {
			t.Fatalf("%v, want 0", got)
		}
	}
}
