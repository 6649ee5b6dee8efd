package authority_test

import (
	"runtime"
	"strings"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/vfs"
)

// Shares that were taken back use little memory, even if they led to a long path or below
// a mount. More of them use no more.
func TestGoneCostsLittle(t *testing.T) {
	names := vfs.NewNamespace()
	ok(t, names.Mount("m", memory.New(memory.Limits{}).Root(), vfs.MountOptions{}))
	h := authority.New(names.Root(), nil, nil)
	t.Cleanup(func() { h.Close() })
	_, secret := grant(t, h, "agent", "m", false)
	n, _, err := h.Restore(secret)
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
		for range rounds * (authority.MaxGone + authority.MaxGone/4) {
			at, err := vfs.Walk(t.Context(), top, path) // its path is a string of its own
			ok(t, err)
			_, ctl, err := h.Share(at)
			ok(t, err)
			ok(t, at.Close())
			ok(t, ctl.Revoke())
			ctl.Release()
		}
		h.WaitForBurials()
		if grown := heap() - before; grown > 4<<20 {
			t.Errorf("%d KiB more are held after %d times as many shares as are remembered were taken back", grown>>10, rounds)
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
