package tests

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// TestUncommittedWriters: what one guest stages in a tree in memory and never
// commits does not prevent others from writing there.
func TestUncommittedWriters(t *testing.T) {
	t.Parallel()
	h := serveAt(newPlaceInMemory(t), exec.Command(capd(t)))
	ctx := context.Background()
	loc, _, _ := h.grant("hoarder", "")
	hoards := dial(t, loc).Dir(ctx)
	staged := 0
	for _, name := range []string{"tmp/one", "tmp/two"} {
		a := vat.Send(ctx, hoards.Cap(), schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error { return p.SetPath(name) })
		defer a.Release()
		w := a.Cap(schema.Dir_stage_Results_writer)
		defer w.Release()
		for range 32 {
			err := vat.Do(ctx, w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error { return p.SetData(make([]byte, 1<<20)) }, nil)
			ok(t, wire.Decode(err))
			staged++
		}
	}
	d := dial(t, h.locator).Dir(ctx)
	for _, size := range []int{1, 4 << 10, 1 << 20, 16 << 20} {
		_, err := d.Put(ctx, "tmp/f", strings.NewReader(strings.Repeat("x", size)), vfs.If{})
		if err != nil {
			t.Errorf("a put of %d bytes beside %d MiB that another guest has staged: %v", size, staged, err)
		}
	}
}
