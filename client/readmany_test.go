package client_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"capd/client"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// ReadMany reads what ReadBytes of each reads, whatever does not fit into one call.
func TestReadMany(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			tree := vfstest.Tree{
				"large":   {Data: strings.Repeat("l", 3<<20)},
				"largest": {Data: strings.Repeat("m", 4<<20)},
				"larger":  {Data: strings.Repeat("n", 4<<20+1)},
				"empty":   {}, "d/e/f": {Data: "below"}, "l": {Link: "d/e/f"},
			}
			paths := []string{"large", "largest", "large", "larger", "empty", "none", "d", "", "../x", "d/e/f", "l", strings.Repeat("x", 5000)}
			for i := range 600 {
				tree[fmt.Sprint("s", i)] = vfstest.Node{Data: fmt.Sprint(i)}
				paths = append(paths, fmt.Sprint("s", i))
			}
			d := guest(t, store(t, tree))
			n := 0
			for r, err := range d.ReadMany(ctx, paths) {
				ok(t, err)
				if r.Path != paths[n] {
					t.Fatalf("file %d is %q, want %q", n, r.Path, paths[n])
				}
				n++
				want, v, err := d.OpenFile(r.Path).ReadBytes(ctx)
				if vfs.CodeOf(err) != vfs.CodeOf(r.Err) || string(want) != string(r.Data) || err == nil && (v != r.Version || v != sha256.Sum256(r.Data)) {
					t.Errorf("%.20q: %d bytes in version %v (%v), want %d in %v (%v)", r.Path, len(r.Data), r.Version, r.Err, len(want), v, err)
				}
			}
			if n != len(paths) {
				t.Errorf("%d files of %d", n, len(paths))
			}
		})
	}
}

// What takes a capability away takes all of ReadMany away.
func TestReadManyRefused(t *testing.T) {
	d, r := guest(t, scene.InMemory(t, vfstest.Tree{"f": {Data: "x"}, "g": {}})).Revocable()
	refused := func(what string, d *client.Dir, code vfs.Code) {
		t.Helper()
		n := 0
		for _, err := range d.ReadMany(t.Context(), []string{"f", "g"}) {
			n++
			is(t, what, err, code)
		}
		if n != 1 {
			t.Errorf("%s: it yields %d times", what, n)
		}
	}
	refused("without the right to read", d.Narrow(client.AllRights&^client.Read), vfs.Denied)
	for f, err := range d.ReadOnly().ReadMany(t.Context(), []string{"f"}) {
		if ok(t, err); string(f.Data) != "x" {
			t.Errorf("read-only: %+v", f)
		}
	}
	ok(t, r.Revoke(t.Context()))
	refused("after a revoke", d, vfs.Revoked)
	ok(t, d.Close())
	refused("closed", d, vfs.Stale)
	for range d.ReadMany(t.Context(), nil) {
		t.Error("no paths are no files")
	}
}
