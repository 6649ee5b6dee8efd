package tests

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/meter"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// put puts a content.
func putTemp(t *testing.T, d *client.Dir, path, content string) error {
	_, err := d.Put(t.Context(), path, strings.NewReader(content), vfs.If{})
	return err
}

func readTemp(t *testing.T, d *client.Dir, path string) string {
	t.Helper()
	text, _, err := d.OpenFile(path).ReadText(t.Context())
	ok(t, err)
	return text
}

// settles waits until used returns 0.
func settles(t *testing.T, what string, used func() int64) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); used() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d is still counted", what, used())
		}
	}
}

func TestTemp(t *testing.T) {
	ctx := t.Context()
	h := scene.Serve(t, scene.InMemory(t, vfstest.Tree{"d": {Dir: true}, "d/f": {Data: "text"}, "e": {Dir: true}}), scene.Options{Record: true, Limits: meter.Limits{meter.StoredBytes: 1000}})
	loc, _ := h.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)
	d := c.Dir(context.Background())
	used := func(k meter.Kind) func() int64 {
		return func() int64 { return h.Authority.Meters().All().Used(k) }
	}
	tmp := d.Temp()
	ok(t, putTemp(t, tmp, "a", "12345"))
	_, err := tmp.CreateDir(ctx, "sub")
	ok(t, err)
	ok(t, putTemp(t, tmp, "sub/b", "67890"))
	if got := used(meter.StoredBytes)(); got != 10 {
		t.Errorf("%d bytes are counted", got)
	}
	if err := putTemp(t, tmp, "big", strings.Repeat("x", 2000)); vfs.CodeOf(err) != vfs.Quota {
		t.Errorf("a put beyond the quota: %v", err)
	}
	// Both ways, files and directories.
	ok(t, tmp.Move(ctx, "sub", d, "e/sub", vfs.If{}, vfs.If{}))
	if got := readTemp(t, d, "e/sub/b"); got != "67890" {
		t.Errorf("%q was moved out", got)
	}
	ok(t, d.Move(ctx, "d", tmp, "d", vfs.If{}, vfs.If{}))
	if got := readTemp(t, tmp, "d/f"); got != "text" {
		t.Errorf("%q was moved in", got)
	}
	_, err = d.Copy(ctx, "e", tmp, "e", vfs.If{}, vfs.If{})
	ok(t, err)
	_, err = tmp.Copy(ctx, "e/sub/b", d, "b", vfs.If{}, vfs.If{})
	ok(t, err)
	if err := tmp.Move(ctx, "a", d.ReadOnly(), "a", vfs.If{}, vfs.If{}); vfs.CodeOf(err) != vfs.ReadOnly {
		t.Errorf("a move to a read-only Dir: %v", err)
	}
	other := d.Temp()
	ok(t, tmp.Move(ctx, "d", other, "d", vfs.If{}, vfs.If{}))
	if got := readTemp(t, other, "d/f"); got != "text" {
		t.Errorf("%q was moved to another", got)
	}
	// Nobody else gets it.
	for what, n := range map[string]vfs.Node{"it": tmp, "below": tmp.SubDir("e/sub"), "a file": tmp.OpenFile("a")} {
		if _, _, err := c.Share(ctx, n); vfs.CodeOf(err) != vfs.Denied {
			t.Errorf("sharing %s: %v", what, err)
		}
	}
	if err := putTemp(t, d.ReadOnly().Temp(), "x", ""); vfs.CodeOf(err) != vfs.ReadOnly {
		t.Errorf("temp of a read-only Dir: %v", err)
	}
	// A capability below keeps it.
	f := tmp.OpenFile("a")
	_, err = f.Stat(ctx)
	ok(t, err)
	ok(t, tmp.Close())
	time.Sleep(20 * time.Millisecond)
	if text, _, err := f.ReadText(ctx); err != nil || text != "12345" {
		t.Errorf("the file answers %q, %v", text, err)
	}
	// A revoke ends it.
	narrow, r := d.Revocable()
	mine := narrow.Temp()
	ok(t, putTemp(t, mine, "x", "y"))
	ok(t, r.Revoke(ctx))
	if err := putTemp(t, mine, "x", "y"); vfs.CodeOf(err) != vfs.Revoked {
		t.Errorf("after a revoke: %v", err)
	}
	ok(t, c.Close())
	settles(t, "temporary directories", used(meter.Temps))
	left := used(meter.StoredBytes)()
	if left != 6 { // e/sub/b and b, without d/f
		t.Errorf("%d bytes are counted in the end", left)
	}
}

// A guest opens as many as it can, and leaves in the middle of writes.
func TestTempsBounded(t *testing.T) {
	h := scene.Serve(t, scene.InMemory(t, nil), scene.Options{})
	loc, _ := h.Grant(t, "agent", "", false)
	c := scene.Dial(t, loc)
	d := c.Dir(context.Background())
	var held []*client.Dir
	refused := 0
	for range 2000 {
		tmp := d.Temp()
		if _, err := tmp.Stat(t.Context()); err == nil {
			held = append(held, tmp)
		} else if refused++; vfs.CodeOf(err) != vfs.Limit {
			t.Fatalf("one too many: %v", err)
		}
	}
	if len(held) != 64 || refused != 2000-64 {
		t.Errorf("%d were made, %d refused", len(held), refused)
	}
	ok(t, held[0].Close())
	settles(t, "one of them", func() int64 { return h.Authority.Meters().All().Used(meter.Temps) - 63 })
	w, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, _ = held[1].Put(w, "f", endless{w}, vfs.If{})
	}()
	time.Sleep(20 * time.Millisecond)
	ok(t, c.Close())
	for _, k := range []meter.Kind{meter.Temps, meter.StoredBytes, meter.StoredNodes, meter.StagedBytes, meter.Nodes} {
		if k == meter.Nodes {
			continue // the host's own
		}
		settles(t, k.String(), func() int64 { return h.Authority.Meters().All().Used(k) })
	}
}

// endless is a content without an end.
type endless struct{ ctx context.Context }

func (e endless) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, errors.New("the test ended")
	}
	return len(p), nil
}
