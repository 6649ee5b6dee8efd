package tests

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// TestChangesCrowd: thousands of calls that wait keep nobody from working, are told of one change, and end with their grant and their connection.
func TestChangesCrowd(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("crowd", func(t *testing.T) {
		h := scene.Serve(t, scene.InMemory(t, vfstest.Tree{"d/f": {Data: "f"}, "e/f": {Data: "f"}}), scene.Options{Record: true})
		ctx := t.Context()
		honest := h.Guest(t)
		const each, guests = 1500, 3
		ended := make(chan error, each*guests)
		var conns []*client.Conn
		var ids []string
		for g := range guests {
			loc, given := h.Grant(t, fmt.Sprint("crowd", g), "d", false)
			c := scene.Dial(t, loc)
			d := c.Dir(context.Background())
			page, err := d.Changes(ctx, vfs.ChangesQuery{})
			ok(t, err)
			for range each {
				go func() {
					_, err := d.Changes(ctx, vfs.ChangesQuery{Cursor: page.Cursor, Wait: time.Minute})
					ended <- err
				}()
			}
			conns, ids = append(conns, c), append(ids, given.ID)
		}
		waits := func() (n int64) {
			for _, id := range ids {
				m, err := h.Authority.Meter(ctx, id)
				if err == nil {
					n += m.Used(meter.Waits)
				}
			}
			return n
		}
		check.Eventually(t, "all wait", func() bool { return waits() >= each*guests*9/10 })
		var took []time.Duration
		for i := range 200 {
			begun := time.Now()
			_, err := honest.Put(ctx, "e/f", strings.NewReader(fmt.Sprint(i)), vfs.If{})
			ok(t, err)
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		t.Logf("beside %d calls that wait, a put takes %v at p50 and %v at p99", waits(), took[100], took[198])
		_, err := h.Authority.Revoke(ids[0])
		ok(t, err)
		for range each {
			is(t, "a call that waited, of what was revoked", <-ended, "revoked")
		}
		conns[1].Close()
		for range each {
			if err := <-ended; err == nil {
				t.Error("a call that waited has ended well, and its connection was closed")
			}
		}
		_, err = honest.Put(ctx, "d/f", strings.NewReader("new"), vfs.If{})
		ok(t, err)
		for range each {
			ok(t, <-ended)
		}
		check.Eventually(t, "none waits", func() bool { return waits() == 0 })
	})
	check.Eventually(t, "nothing of them is left", func() bool { return runtime.NumGoroutine() < before+20 })
}
