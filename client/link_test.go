package client_test

import (
	"context"
	"strings"
	"testing"

	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/vfstest"
)

var linkTree = vfstest.Tree{
	"f":          {Data: "the file"},
	"d/g":        {Data: "below"},
	"d/up":       {Link: "../f"},
	"d/here":     {Link: "g"},
	"way":        {Link: "d/up"},
	"dir":        {Link: "d"},
	"out":        {Link: "../secret"},
	"absolute":   {Link: "/etc/passwd"},
	"dangling":   {Link: "missing"},
	"loop":       {Link: "loop"},
	"d/e/around": {Link: "../../d/e/../g"},
}

func TestLinks(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d := guest(t, store(t, linkTree))
			for _, c := range []struct {
				path, target string
				code         vfs.Code
			}{
				{"way", "d/up", ""}, {"dir", "d", ""}, {"d/up", "../f", ""}, {"dangling", "missing", ""},
				{"out", "", vfs.Outside}, {"absolute", "", vfs.Outside},
			} {
				n, err := d.Walk(ctx, c.path, false)
				ok(t, err)
				l := n.(vfs.Link)
				target, err := l.Target(ctx)
				is(t, "Target of "+c.path, err, c.code)
				if target != c.target {
					t.Errorf("Target of %s is %q, want %q", c.path, target, c.target)
				}
				info, err := l.Stat(ctx)
				ok(t, err)
				if info.Kind != vfs.LinkKind || info.Size != 0 {
					t.Errorf("Stat of %s: %+v", c.path, info)
				}
				ok(t, l.Close())
				ok(t, l.Close())
				_, err = l.Target(ctx)
				is(t, "Target of a closed link", err, vfs.Stale)
			}
			for path, want := range map[string]string{"way": "the file", "dir/here": "below", "dir/up": "the file", "d/e/around": "below"} {
				text, _, err := d.OpenFile(path).ReadText(ctx)
				ok(t, err)
				if text != want {
					t.Errorf("%s reads %q, want %q", path, text, want)
				}
			}
			for path, code := range map[string]vfs.Code{
				"out": vfs.Outside, "absolute": vfs.Outside, "dangling": vfs.NotFound, "loop": vfs.Limit, "out/x": vfs.Outside,
			} {
				_, _, err := d.OpenFile(path).ReadText(ctx)
				is(t, "reading "+path, err, code)
			}
			// A link that stays within one Dir leads out of another that holds less.
			_, _, err := d.SubDir("d").OpenFile("up").ReadText(ctx)
			is(t, "reading through a link out of a SubDir", err, vfs.Outside)
		})
	}
}

// Remove and rename act on the link itself, also on one that is gone.
func TestLinksThemselves(t *testing.T) {
	ctx := context.Background()
	d := guest(t, scene.InMemory(t, linkTree))
	n, err := d.Lookup(ctx, "way")
	ok(t, err)
	ok(t, d.Rename(ctx, "way", d, "moved", vfs.If{}, vfs.If{}))
	_, err = n.(vfs.Link).Target(ctx)
	is(t, "Target of a link that was renamed", err, vfs.NotFound)
	ok(t, d.Remove(ctx, "moved", vfs.If{}))
	text, _, err := d.OpenFile("f").ReadText(ctx)
	if ok(t, err); text != "the file" {
		t.Errorf("f reads %q", text)
	}
	_, err = d.Replace(ctx, "dir", strings.NewReader("x"), vfs.If{})
	is(t, "Replace of a link", err, vfs.NotRegular)
}
