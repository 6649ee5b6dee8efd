package membrane_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

var household = vfstest.Tree{
	"d/a": {Data: "a"}, "d/e/x": {Data: "#!", Exec: true}, "d/e/l": {Link: "x"}, "d/hollow": {Dir: true}, "f": {Data: "content"}, "keep": {Data: "kept"},
}

// house is a tree of two mounts, of which "guarded" asks about what is below d and f and withholds secret. Approvals are
// what decide says.
func house(t *testing.T, decide func(membrane.Op, []string, vfs.Staged) error) (d, guarded, open vfs.Dir) {
	t.Helper()
	_, guarded = check.Store(t, household)
	_, open = check.Store(t, household)
	ns := namespace.New()
	check.OK(t, ns.Mount("guarded", guarded, namespace.Options{Guards: []membrane.Guard{deny.Must("**/secret").Guard(), deny.Must("**/a", "f", "**/x").Ask("guarded")}}))
	check.OK(t, ns.Mount("open", open, namespace.Options{}))
	return membrane.Guarded(ns.Root(), nil, approves(decide)), guarded, open
}

// parts describes what an approval lists.
func parts(b *vfs.Bound) string {
	var all []string
	for _, p := range b.Parts {
		text := p.Path
		switch p.Kind {
		case vfs.FileKind:
			text = fmt.Sprintf("%s:%d:%v:%s", p.Path, p.Size, p.Exec, p.Version.String()[:4])
		case vfs.LinkKind:
			text += ">" + p.Target
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestAskedMove: a move between two mounts waits for one approval, which lists all that moves.
func TestAskedMove(t *testing.T) {
	sum := func(data string) vfs.Version { return sha256.Sum256([]byte(data)) }
	short := func(data string) string { return sum(data).String()[:4] }
	all := fmt.Sprintf(" a:1:false:%s e e/l>x e/x:2:true:%s hollow", short("a"), short("#!"))
	for name, c := range map[string]struct {
		from, to string
		over     vfs.If
		want     vfs.Bound
		parts    string
	}{
		"a file away":      {"guarded/f", "open/g", vfs.If{}, vfs.Bound{Found: vfs.If{Is: sum("content")}, FoundTo: vfs.If{Absent: true}}, ":7:false:" + short("content")},
		"a file over one":  {"open/keep", "guarded/f", vfs.If{Is: sum("content")}, vfs.Bound{Found: vfs.If{Is: sum("kept")}, FoundTo: vfs.If{Is: sum("content")}}, ":4:false:" + short("kept")},
		"a directory away": {"guarded/d", "open/g", vfs.If{}, vfs.Bound{FoundTo: vfs.If{Absent: true}}, all},
		"one there":        {"open/d", "guarded/g", vfs.If{}, vfs.Bound{FoundTo: vfs.If{Absent: true}}, all},
		"nothing guarded":  {"open/keep", "guarded/g", vfs.If{}, vfs.Bound{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			times, before := 0, ""
			var d vfs.Dir
			d, _, _ = house(t, func(op membrane.Op, why []string, s vfs.Staged) error {
				times++
				if op.Kind != membrane.OpRename || op.Path != c.from || op.To != c.to {
					t.Errorf("asked about %s %s to %s", op.Kind, op.Path, op.To)
				}
				if b := s.Bound; b.Found != c.want.Found || b.FoundTo != c.want.FoundTo || parts(b) != c.parts {
					t.Errorf("the approval is bound to %+v, %s", *b, parts(b))
				}
				if len(why) == 0 || !strings.HasPrefix(why[0], "guarded: ") {
					t.Errorf("asked because of %q", why)
				}
				if now := check.Picture(t, d); now != before {
					t.Errorf("before the decision there is %s", now)
				}
				return nil
			})
			before = check.Picture(t, d)
			check.OK(t, move(t.Context(), t, d, c.from, c.to, c.over))
			if want := min(len(c.parts), 1); times != want {
				t.Errorf("asked %d times", times)
			}
			_, err := vfs.Walk(t.Context(), d, c.from)
			check.Is(t, "what was moved", err, vfs.NotFound)
			n, err := vfs.Walk(t.Context(), d, c.to)
			check.OK(t, err)
			n.Close()
		})
	}
}

// move moves what is at one path of d to another.
func move(ctx context.Context, t *testing.T, d vfs.Dir, from, to string, over vfs.If) error {
	t.Helper()
	src, dst := check.DirAt(t, d, from[:strings.LastIndex(from, "/")]), check.DirAt(t, d, to[:strings.LastIndex(to, "/")])
	return src.Rename(ctx, from[strings.LastIndex(from, "/")+1:], dst, to[strings.LastIndex(to, "/")+1:], vfs.If{}, over)
}

// TestMoveChangesWhileAsked: only what was approved moves.
func TestMoveChangesWhileAsked(t *testing.T) {
	put := func(path, data string, exec bool) func(context.Context, vfs.Dir, vfs.Dir) error {
		return func(ctx context.Context, src, _ vfs.Dir) error {
			dir, name := src, path
			if i := strings.LastIndex(path, "/"); i >= 0 {
				n, err := vfs.Walk(ctx, src, path[:i])
				if err != nil {
					return err
				}
				defer n.Close()
				dir, name = n.(vfs.Dir), path[i+1:]
			}
			_, err := vfs.Install(ctx, dir, name, strings.NewReader(data), exec, vfs.If{})
			return err
		}
	}
	for name, c := range map[string]struct {
		change func(ctx context.Context, src, dst vfs.Dir) error
		want   []vfs.Code
	}{
		"a content":               {put("d/a", "b", false), []vfs.Code{vfs.Conflict}},
		"an executable bit":       {put("d/a", "a", true), []vfs.Code{vfs.Conflict}},
		"one that went":           {put("d/e/x", "#!", false), []vfs.Code{vfs.Conflict}},
		"a new file":              {put("d/e/new", "new", false), []vfs.Code{vfs.Conflict}},
		"something at the target": {func(ctx context.Context, _, dst vfs.Dir) error { return check.Put(ctx, dst, "g", "there") }, []vfs.Code{vfs.Exists}},
		"a link": {func(ctx context.Context, src, _ vfs.Dir) error {
			e := check.DirAt(t, src, "d/e")
			if err := e.Remove(ctx, "l", vfs.If{}); err != nil {
				return err
			}
			return vfs.Symlink(ctx, e, "l", "elsewhere")
		}, []vfs.Code{vfs.Conflict}},
		"a file that is gone": {func(ctx context.Context, src, _ vfs.Dir) error {
			return check.DirAt(t, src, "d").Remove(ctx, "a", vfs.If{})
		}, []vfs.Code{vfs.Conflict}},
	} {
		for _, ends := range [][2]string{{"guarded", "open"}, {"open", "guarded"}} {
			t.Run(name+" from "+ends[0], func(t *testing.T) {
				after, asked := "", 0
				var d, guarded, open vfs.Dir
				d, guarded, open = house(t, func(membrane.Op, []string, vfs.Staged) error {
					asked++
					src, dst := guarded, open
					if ends[0] == "open" {
						src, dst = open, guarded
					}
					check.OK(t, c.change(t.Context(), src, dst))
					after = check.Picture(t, d)
					return nil
				})
				err := move(t.Context(), t, d, ends[0]+"/d", ends[1]+"/g", vfs.If{})
				if !slices.Contains(c.want, vfs.CodeOf(err)) || asked != 1 {
					t.Errorf("asked %d times, %v", asked, err)
				}
				if now := check.Picture(t, d); now != after {
					t.Errorf("there is\n%s\nrather than\n%s", now, after)
				}
			})
		}
	}
}

// TestAskedMoveLast: nobody is asked about a move that is refused anyway.
func TestAskedMoveLast(t *testing.T) {
	d, guarded, open := house(t, func(op membrane.Op, _ []string, _ vfs.Staged) error {
		t.Errorf("asked about %s to %s", op.Path, op.To)
		return nil
	})
	check.OK(t, check.Put(t.Context(), check.DirAt(t, open, "d"), "secret", "s"))
	check.Is(t, "to where a part is withheld", move(t.Context(), t, d, "open/d", "guarded/g", vfs.If{}), vfs.Denied)
	check.Is(t, "over something", move(t.Context(), t, d, "open/keep", "guarded/f", vfs.If{}), vfs.Exists)
	check.Is(t, "over another version", move(t.Context(), t, d, "open/keep", "guarded/f", vfs.If{Is: vfs.Version{1}}), vfs.Conflict)
	check.OK(t, check.Put(t.Context(), check.DirAt(t, guarded, "d"), "secret", "s"))
	check.Is(t, "of what holds something withheld", move(t.Context(), t, d, "guarded/d", "open/g", vfs.If{}), vfs.Denied)
}

// TestMoveDenied: a move that is not approved leaves everything as it was.
func TestMoveDenied(t *testing.T) {
	d, _, _ := house(t, func(membrane.Op, []string, vfs.Staged) error { return vfs.Denied })
	before := check.Picture(t, d)
	check.Is(t, "to another mount", move(t.Context(), t, d, "guarded/d", "open/g", vfs.If{}), vfs.Denied)
	check.Is(t, "from another mount", move(t.Context(), t, d, "open/d", "guarded/g", vfs.If{}), vfs.Denied)
	if now := check.Picture(t, d); now != before {
		t.Errorf("there is\n%s\nrather than\n%s", now, before)
	}
}
