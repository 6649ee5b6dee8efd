package state

import (
	"errors"
	"os"
	"reflect"
	"testing"

	"capd/locator"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func TestWaysAreKept(t *testing.T) {
	s := Dir(t.TempDir())
	ways, err := s.Ways()
	check.OK(t, err)
	if got := ways; len(got) != 0 {
		t.Fatalf("a new state directory has ways: %v", got)
	}
	want := []Way{{"example.org", 7, locator.KeyOf(nil)}, {"::1", 8, locator.KeyOf([]byte("x"))}}
	check.OK(t, s.KeepWays(want))
	ways, err = s.Ways()
	check.OK(t, err)
	if got, want := ways, want; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
	if got, want := ways[1].String(), "tls:[::1]:8"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	check.OK(t, os.WriteFile(s.ways(), []byte("{"), 0o600))
	_, err = s.Ways()
	if !errors.Is(err, vfs.Corrupt) {
		t.Fatalf("%v, want %v", err, vfs.Corrupt)
	}
}
