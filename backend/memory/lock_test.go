package memory

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"capd/vfs"
)

// A large file that changes all the while is not hashed under the lock.
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
