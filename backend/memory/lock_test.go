package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"capd/vfs"
)

// A large file that changes all the time is not hashed under the lock.
func TestNoLongHashUnderTheLock(t *testing.T) {
	for size, want := range map[int64]vfs.Code{sumLocked: vfs.Conflict, sumLocked + 1: vfs.Busy} {
		n := newInode(vfs.FileKind)
		n.data.truncate(size)
		if err := meets(vfs.If{Is: vfs.Version{1}}, n, versionTries); vfs.CodeOf(err) != want {
			t.Errorf("%d bytes: %v, want %s", size, err, want)
		}
	}
}

// What is cut off a file is no longer held.
func TestTruncateFrees(t *testing.T) {
	ctx := context.Background()
	const files = 500
	for name, c := range map[string]struct {
		data []byte
		at   int64
		open bool // and the old content shared
	}{
		"a chunk":        {data: make([]byte, chunkSize)},
		"a shared chunk": {data: make([]byte, chunkSize), open: true},
		"far away":       {data: []byte{1}, at: 60 << 20},
	} {
		for _, size := range []int64{0, 1, 100} {
			d := New(Limits{}).Root()
			before := heap()
			for i := range files {
				f, err := d.Create(ctx, fmt.Sprint(i))
				if err == nil {
					_, err = f.WriteAt(ctx, c.data, c.at, vfs.If{})
				}
				if err == nil && c.open {
					_, err = vfs.VersionOf(ctx, f)
				}
				if err == nil {
					err = f.Truncate(ctx, size, vfs.If{})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if each := (heap() - before) / files; each > 3000 {
				t.Errorf("%s, cut to %d: a file holds %d bytes", name, size, each)
			}
			runtime.KeepAlive(d)
		}
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A listing that begins does not copy anything as long as the directory, because it holds
// the lock.
func TestListingBeginsAtOnce(t *testing.T) {
	const files, rounds = 4000, 20
	d := New(Limits{}).Root()
	for i := range files {
		if _, err := d.Create(t.Context(), fmt.Sprintf("%05d", i)); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range rounds {
		if _, err := d.Create(t.Context(), fmt.Sprintf("new%d", i)); err != nil {
			t.Fatal(err)
		}
		for e, err := range d.List(t.Context()) {
			if err != nil || e.Name != "00000" {
				t.Fatalf("the first is %q: %v", e.Name, err)
			}
			break
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 32<<10 {
		t.Errorf("to begin a listing of %d names after a change takes %d bytes", files, each)
	}
}

// A listing shows the directory as it was when it began, whatever changes meanwhile.
func TestListingIsOfOneMoment(t *testing.T) {
	d := New(Limits{}).Root()
	for i := range 1000 {
		if _, err := d.Create(t.Context(), fmt.Sprintf("%04d", i)); err != nil {
			t.Fatal(err)
		}
	}
	changed := make(chan error)
	n := 0
	for e, err := range d.List(t.Context()) {
		if n == 0 {
			go func() {
				for i := range 1000 {
					name := fmt.Sprintf("%04d", i)
					err := d.Remove(context.Background(), name, vfs.If{})
					if err == nil {
						_, err = d.Mkdir(context.Background(), name+"x")
					}
					if err != nil {
						changed <- err
						return
					}
				}
				changed <- nil
			}()
		}
		if want := fmt.Sprintf("%04d", n); err != nil || e.Name != want || e.Kind != vfs.FileKind {
			t.Fatalf("number %d is %q, a %v: %v", n, e.Name, e.Kind, err)
		}
		n++
	}
	if err := <-changed; err != nil || n != 1000 {
		t.Errorf("%d were listed: %v", n, err)
	}
}
