package authority_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/namespace"
)

// Shares that were taken back use little memory, even if they led to a long path or below
// a mount. More of them use no more.
func TestGoneCostsLittle(t *testing.T) {
	names := namespace.New()
	ok(t, names.Mount("m", memory.New(memory.Limits{}).Root(), namespace.Options{}))
	h := authority.New(names.Root(), nil, nil)
	h.Remember(100)
	t.Cleanup(func() { h.Close() })
	_, secret := grant(t, h, "agent", "m", false)
	n, _, err := h.Restore(t.Context(), secret)
	ok(t, err)
	defer n.Close()
	top := n.(vfs.Dir)
	path := strings.Repeat("x", vfs.MaxName)
	_, err = top.Mkdir(t.Context(), path)
	ok(t, err)
	for range 14 {
		path += "/" + strings.Repeat("x", vfs.MaxName)
		parent, name, release, err := vfs.WalkParent(t.Context(), top, path)
		ok(t, err)
		_, err = parent.Mkdir(t.Context(), name)
		ok(t, err)
		release()
	}
	for _, rounds := range []int{1, 2} { // forgotten shares cost nothing
		before := heap()
		for range rounds * 1000 {
			at, err := vfs.Walk(t.Context(), top, path) // its path is a string of its own
			ok(t, err)
			_, ctl, err := h.Share(t.Context(), at)
			ok(t, err)
			ok(t, at.Close())
			ok(t, ctl.Revoke())
			ctl.Release()
		}
		h.WaitForBurials()
		ok(t, h.Forget())
		if grown := heap() - before; grown > 1<<20 {
			t.Errorf("%d KiB more are held after %d thousand shares were taken back", grown>>10, rounds)
		}
	}
}

// heap returns how many bytes are allocated and reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// After Close there is no grant, whoever grants and revokes while it runs.
func TestCloseWhileGranting(t *testing.T) {
	for range 200 {
		h := authority.New(memory.New(memory.Limits{}).Root(), nil, nil)
		var others sync.WaitGroup
		for i := range 4 {
			name := string(rune('a' + i))
			others.Go(func() {
				for err, n := error(nil), 0; err == nil && n < 100; n++ {
					_, _, err = h.Grant(context.Background(), name, "", false)
					_, _ = h.Revoke(name)
					_, _ = h.SetWritable(name, i%2 == 0)
				}
			})
		}
		ok(t, h.Close())
		others.Wait()
		if ids, _, _ := h.Residents(); ids > 0 {
			t.Fatalf("%d grants are left after Close", ids)
		}
		_, err := h.Grants("", 1000)
		is(t, "Grants after Close", err, vfs.Stale)
		_, _, err = h.Grant(t.Context(), "late", "", false)
		if !errors.Is(err, vfs.Stale) {
			t.Fatal(err)
		}
	}
}
