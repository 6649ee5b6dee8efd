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

// ChangedSince finds each path that is not as it was known, however many there are, and no other.
func TestChangedSince(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			tree := vfstest.Tree{"same": {Data: "same"}, "replaced": {Data: "old"}, "removed": {Data: "x"}, "dir": {Data: "x"}, "d/e": {Data: "e"}, "l": {Link: "d/e"}}
			for i := range 1500 {
				tree[fmt.Sprint("s", i)] = vfstest.Node{Data: fmt.Sprint(i)}
			}
			d := guest(t, store(t, tree))
			var known []client.Known
			of := func(path, data string) {
				known = append(known, client.Known{Path: path, Version: sha256.Sum256([]byte(data))})
			}
			for path, n := range tree {
				if of(path, n.Data); n.Link != "" {
					known[len(known)-1].Version = sha256.Sum256([]byte("e"))
				}
			}
			for _, path := range []string{"none", "none/below", "same/below", "made"} {
				known = append(known, client.Known{Path: path})
			}
			for c, err := range d.ChangedSince(ctx, known) {
				ok(t, err)
				t.Errorf("%s differs before anything changed: %v, %v", c.Path, c.Version, c.Err)
			}
			_, err := d.Put(ctx, "replaced", strings.NewReader("new"), vfs.If{})
			ok(t, err)
			_, err = d.Put(ctx, "made", strings.NewReader("made"), vfs.If{})
			ok(t, err)
			_, err = d.Put(ctx, "s1400", strings.NewReader("other"), vfs.If{})
			ok(t, err)
			ok(t, d.RemovePath(ctx, "removed", vfs.If{}))
			ok(t, d.RemovePath(ctx, "dir", vfs.If{}))
			_, err = d.CreateDir(ctx, "dir")
			ok(t, err)
			known = append(known, client.Known{Path: "../up"}, client.Known{Path: strings.Repeat("x/", 3<<20)})
			for i := range 1100 { // more than fit into a message
				known = append(known, client.Known{Path: strings.Repeat("y/", 2000) + fmt.Sprint(i)})
			}
			known = append(known, client.Known{Path: "same"})
			want := map[string]vfs.Code{"removed": vfs.NotFound, "dir": vfs.IsDir, "../up": vfs.Invalid, known[len(known)-1102].Path: vfs.Limit, "replaced": "", "made": "", "s1400": "", "same": ""}
			for c, err := range d.ChangedSince(ctx, known) {
				ok(t, err)
				if strings.HasPrefix(c.Path, "y/") {
					is(t, "a path of too many names", c.Err, vfs.Limit)
					continue
				}
				code, there := want[c.Path]
				delete(want, c.Path)
				if !there {
					t.Errorf("%.40q differs: %v", c.Path, c.Err)
				} else if code != "" {
					is(t, fmt.Sprintf("%.40q", c.Path), c.Err, code)
				} else if _, v, err := d.OpenFile(c.Path).ReadBytes(ctx); err != nil || c.Err != nil || v != c.Version {
					t.Errorf("%s: %v, %v; want %v, %v", c.Path, c.Version, c.Err, v, err)
				}
			}
			for path := range want {
				t.Errorf("%.40q differs and is not said to", path)
			}
		})
	}
}

// What takes a capability away takes all of ChangedSince away.
func TestChangedSinceRefused(t *testing.T) {
	d, r := guest(t, scene.InMemory(t, vfstest.Tree{"f": {Data: "x"}, "g": {}})).Revocable()
	known := []client.Known{{Path: "f", Version: sha256.Sum256([]byte("x"))}, {Path: "g"}}
	refused := func(what string, d *client.Dir, code vfs.Code) {
		t.Helper()
		n := 0
		for _, err := range d.ChangedSince(t.Context(), known) {
			n++
			is(t, what, err, code)
		}
		if n != 1 {
			t.Errorf("%s: it yields %d times", what, n)
		}
	}
	refused("without the right to read", d.Narrow(client.AllRights&^client.Read), vfs.Denied)
	for c, err := range d.Narrow(client.Read).ChangedSince(t.Context(), known) {
		if ok(t, err); c.Path != "g" || c.Err != nil {
			t.Errorf("with read alone: %+v", c)
		}
	}
	ok(t, r.Revoke(t.Context()))
	refused("after a revoke", d, vfs.Revoked)
	ok(t, d.Close())
	refused("closed", d, vfs.Stale)
	for range d.ChangedSince(t.Context(), nil) {
		t.Error("no paths cannot differ")
	}
}
