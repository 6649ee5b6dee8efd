package state

import (
	"reflect"
	"testing"
)

func TestMapped(t *testing.T) {
	for _, c := range []struct {
		table  string
		uid    uint32
		mapped bool
	}{
		{"         0          0 4294967295\n", 65534, true},
		{"      1000       1000          1\n", 1000, true},
		{"      1000       1000          1\n", 65534, false},
		{"0 1000 1\n1 100000 65536\n", 65534, true},
		{"0 1000 1\n1 100000 65000\n", 65534, false},
		{"what is this\n", 65534, true},
	} {
		if got, want := mapped(c.table, c.uid), c.mapped; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", c, got, want)
		}
	}
	if outside(0) {
		t.Fatal("root counts as a user outside of this user namespace")
	}
}
