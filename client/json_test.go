package client_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

func TestJSON(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d := guest(t, store(t, vfstest.Tree{
				"a.json": {Data: "\ufeff{\r\n\t\"a\": 1,\r\n\t\"l\": [\"x\"]\r\n}"},
				"bad":    {Data: "{\n  \"a\": 1,\n}\n"},
				"big":    {Data: strings.Repeat(" ", 4<<20) + "1"},
			}))
			f := d.OpenFile("a.json")
			value, v, err := f.ReadJSON(ctx, "/l/0")
			ok(t, err)
			if have, err := f.Version(ctx); string(value) != `"x"` || v != have {
				t.Errorf("/l/0 is %s in version %v, of %v (%v)", value, v, have, err)
			}
			v2, err := f.WriteJSON(ctx, "/b", []byte("true"), vfs.If{Is: v})
			ok(t, err)
			_, err = f.WriteJSON(ctx, "/b", []byte("false"), vfs.If{Is: v})
			is(t, "a version that was", err, vfs.Conflict)
			_, err = f.RemoveJSON(ctx, "/b", vfs.If{Absent: true})
			is(t, "a file that is there", err, vfs.Conflict)
			v3, err := f.RemoveJSON(ctx, "/a", vfs.If{})
			ok(t, err)
			text, have, err := f.ReadText(ctx)
			ok(t, err)
			if want := "\ufeff{\r\n\t\"l\": [\"x\"],\r\n\t\"b\": true\r\n}"; text != want || v3 != have || v2 == v3 {
				t.Errorf("it is %q in version %v, want %q in %v", text, have, want, v3)
			}

			_, err = f.ReadOnly().WriteJSON(ctx, "/b", []byte("1"), vfs.If{})
			is(t, "through a read-only File", err, vfs.ReadOnly)
			_, _, err = f.ReadJSON(ctx, "/x")
			is(t, "what is not there", err, vfs.NotFound)
			_, err = f.RemoveJSON(ctx, "/x", vfs.If{})
			is(t, "removing what is not there", err, vfs.NotFound)
			_, err = d.OpenFile("none").WriteJSON(ctx, "", []byte("1"), vfs.If{})
			is(t, "a file that is not there", err, vfs.NotFound)
			_, err = d.OpenFile("bad").WriteJSON(ctx, "/a", []byte("1"), vfs.If{})
			is(t, "a file that is not JSON", err, vfs.Invalid)
			if !strings.Contains(err.Error(), "line 2, column 9") {
				t.Errorf("where it is not JSON: %v", err)
			}
			_, _, err = d.OpenFile("big").ReadJSON(ctx, "")
			is(t, "a file above 4 MiB", err, vfs.TooLarge)
			text, _, err = d.OpenFile("bad").ReadText(ctx)
			ok(t, err)
			if text != "{\n  \"a\": 1,\n}\n" {
				t.Errorf("what was refused has become %q", text)
			}
		})
	}
}

// Writers at the same time all land.
func TestJSONTogether(t *testing.T) {
	d := guest(t, scene.InMemory(t, vfstest.Tree{"a.json": {Data: "{}\n"}}))
	const writers = 50
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			if _, err := d.OpenFile("a.json").WriteJSON(t.Context(), fmt.Sprint("/n", i), fmt.Append(nil, i), vfs.If{}); err != nil {
				t.Errorf("writer %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for i := range writers {
		value, _, err := d.OpenFile("a.json").ReadJSON(t.Context(), fmt.Sprint("/n", i))
		if err != nil || string(value) != fmt.Sprint(i) {
			t.Errorf("/n%d is %s (%v)", i, value, err)
		}
	}
}
