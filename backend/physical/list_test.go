package physical_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// heap returns how many bytes are allocated and reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// longNames fills dir with n files with names of the greatest length, and returns the
// names in order.
func longNames(t testing.TB, dir string, n int) []string {
	t.Helper()
	var names []string
	for i := range n {
		// Each begins with another number, in an order that no listing has.
		name := fmt.Sprintf("%08x", uint32(i)*2654435761)
		name += strings.Repeat("n", vfs.MaxName-len(name))
		names = append(names, name)
		path := filepath.Join(dir, name)
		err := error(nil)
		if i == 0 {
			err = os.WriteFile(path, nil, 0o600)
		} else {
			err = os.Link(filepath.Join(dir, names[0]), path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(names)
	return names
}

// A listing of a large directory is complete and in order, and holds only a part of it at
// a time.
func TestListLarge(t *testing.T) {
	defer func(n int) { *physical.ListBytes = n }(*physical.ListBytes)
	*physical.ListBytes = 1 << 20
	dir := t.TempDir()
	want := longNames(t, dir, 10_000) // 3 MB
	for _, o := range []physical.Options{{}, {Portable: true}} {
		s := open(t, dir, o)
		before := heap()
		at := 0
		for e, err := range s.Root().List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Name != want[at] || e.Kind != vfs.FileKind {
				t.Fatalf("entry %d is %.8s, a %v; want %.8s", at, e.Name, e.Kind, want[at])
			}
			if at++; at%5_000 == 1 {
				if held := heap() - before; held > 3<<19 {
					t.Errorf("after %d entries the listing holds %d KiB", at, held>>10)
				}
			}
		}
		if at != len(want) {
			t.Errorf("%d entries, want %d", at, len(want))
		}
	}
}

// A listing by pages reads the entries before the page only to skip them.
func TestListFrom(t *testing.T) {
	dir := t.TempDir()
	want := longNames(t, dir, 1000)
	d := open(t, dir, physical.Options{}).Root()
	for _, at := range []int{0, 1, 500, 999} {
		var got []string
		for e, err := range vfs.ListFrom(t.Context(), d, want[at]) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Name)
		}
		if !slices.Equal(got, want[at:]) {
			t.Errorf("from name %d: %d names, want %d", at, len(got), len(want)-at)
		}
	}
}
