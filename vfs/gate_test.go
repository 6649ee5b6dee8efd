package vfs_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
)

// deep returns views of d, each derived from the one before, with the controls
// of those that have their own.
func deep(t testing.TB, d vfs.Dir, depth int) (views []vfs.Dir, controls []*vfs.Control) {
	t.Helper()
	for i := range depth {
		if i%2 == 0 {
			var c *vfs.Control
			d, c = controlled(t, d)
			controls = append(controls, c)
		} else {
			d = dirAt(t, d, "down")
		}
		views = append(views, d)
	}
	return views, controls
}

// well is a directory that goes down forever, in effect, with what hold needs
// everywhere.
func well(t testing.TB, depth int) vfs.Dir {
	t.Helper()
	s, raw := store(t, nil)
	d, path := raw, ""
	for range depth {
		ok(t, put(t.Context(), d, "f", "content"))
		ok(t, s.Symlink(t.Context(), vfs.Join(path, "l"), "f"))
		below, err := d.Mkdir(t.Context(), "a")
		ok(t, err)
		ok(t, put(t.Context(), below, "f", "content"))
		d, err = d.Mkdir(t.Context(), "down")
		ok(t, err)
		path = vfs.Join(path, "down")
	}
	return raw
}

func TestModesAtEveryDepth(t *testing.T) {
	const depth = 9
	views, controls := deep(t, vfs.Guarded(well(t, depth), nil), depth)
	var all []held
	for _, v := range views {
		all = append(all, hold(t, v))
	}
	for _, m := range []struct {
		name           string
		set, undo      func(c *vfs.Control)
		reads, changes vfs.Code
	}{
		{"locked", func(c *vfs.Control) { ok(t, c.SetWritable(false)) }, func(c *vfs.Control) { ok(t, c.SetWritable(true)) }, "", vfs.ReadOnly},
		{"unreadable", func(c *vfs.Control) { c.SetReadable(false) }, func(c *vfs.Control) { c.SetReadable(true) }, vfs.Denied, ""},
	} {
		for at, c := range controls {
			m.set(c)
			for i, h := range all {
				what := fmt.Sprintf("%s at %d, seen from %d", m.name, 2*at, i)
				reads, changes := m.reads, m.changes
				if i < 2*at {
					reads, changes = "", ""
				}
				for _, o := range ops {
					switch {
					case !o.changes:
						is(t, what+": "+o.name, o.do(t.Context(), h), reads)
					case m.name == "locked":
						is(t, what+": "+o.name, o.do(t.Context(), h), changes)
					}
				}
			}
			m.undo(c)
			for _, h := range all {
				tryAll(t, "unlocked again", h, "", "")
			}
		}
	}
	// From the bottom up, so that those above are alive still.
	for at := len(controls) - 1; at >= 0; at-- {
		for range 2 {
			ok(t, controls[at].Revoke())
		}
		for i, h := range all {
			want := vfs.Code("")
			if i >= 2*at {
				want = vfs.Revoked
			}
			tryAll(t, fmt.Sprintf("revoked at %d, seen from %d", 2*at, i), h, want, want)
		}
	}
	for _, h := range all {
		h.close()
	}
	for _, v := range views {
		ok(t, v.Close())
		ok(t, v.Close())
	}
}

func TestRevokeReachesWhatWasDerived(t *testing.T) {
	d, c, _ := guarded(t, sample)
	readOnly, err := vfs.ReadOnlyDir(d)
	ok(t, err)
	revocable, _ := controlled(t, readOnly)
	f, err := vfs.ReadOnlyFile(fileAt(t, d, "f"))
	ok(t, err)
	g, _, err := vfs.RevocableFile(f)
	ok(t, err)
	content, err := vfs.Open(t.Context(), g)
	ok(t, err)
	sub := dirAt(t, revocable, "a/b/c")
	told := 0
	vfs.OnRevoke(sub, func(err error) { is(t, "told", err, vfs.Revoked); told++ })
	stop := vfs.OnRevoke(sub, func(error) { t.Error("told, although stopped") })
	stop()

	// These stay when the files that they come from are closed.
	ok(t, f.Close())
	ok(t, g.Close())
	_, err = content.ReadAt(make([]byte, 1), 0)
	ok(t, err)

	ok(t, c.Revoke())
	for what, v := range map[string]vfs.Dir{"d": d, "readOnly": readOnly, "revocable": revocable} {
		_, err := v.Lookup(t.Context(), "f")
		is(t, what, err, vfs.Revoked)
		_, err = vfs.ReadOnlyDir(v)
		is(t, what+", narrowed", err, vfs.Revoked)
		_, _, err = vfs.RevocableDir(v)
		is(t, what+", revocable", err, vfs.Revoked)
		_, err = vfs.Walk(t.Context(), v, "l")
		is(t, what+", walked", err, vfs.Revoked)
	}
	_, err = sub.Stat(t.Context())
	is(t, "sub", err, vfs.Revoked)
	_, err = content.ReadAt(make([]byte, 1), 0)
	is(t, "content", err, vfs.Revoked)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	vfs.OnRevoke(sub, func(err error) { is(t, "told at once", err, vfs.Revoked); told++ })
	if told != 2 {
		t.Error("not told at once")
	}
}

func TestAttenuationNeverComesBack(t *testing.T) {
	d, c, _ := guarded(t, sample)
	ro, err := vfs.ReadOnlyDir(d)
	ok(t, err)
	sub, own := controlled(t, dirAt(t, ro, "a"))
	ok(t, own.SetWritable(true))
	ok(t, c.SetWritable(false))
	ok(t, c.SetWritable(true))
	is(t, "through readOnly", put(t.Context(), ro, "f", "x"), vfs.ReadOnly)
	is(t, "through revocable of readOnly", put(t.Context(), sub, "f", "x"), vfs.ReadOnly)
	_, err = vfs.ReplaceFile(t.Context(), fileAt(t, sub, "f"), nil, vfs.If{})
	is(t, "a file of it", err, vfs.ReadOnly)
	is(t, "renamed into it", d.Rename(t.Context(), "f", ro, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	is(t, "renamed out of it", ro.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	ok(t, put(t.Context(), d, "f", "x"))
	if own, effective := own.Writable(); !own || effective {
		t.Errorf("below readOnly: own %v, effective %v", own, effective)
	}
	ok(t, c.SetWritable(false))
	if own, effective := own.Writable(); !own || effective {
		t.Errorf("below a lock: own %v, effective %v", own, effective)
	}
}

// TestEnterLate: what was seen of a gate lets no change begin once the gate, or a
// route below it, is another.
func TestEnterLate(t *testing.T) {
	for name, set := range map[string]func(c *vfs.Control){
		"nothing":    func(*vfs.Control) {},
		"revoked":    func(c *vfs.Control) { ok(t, c.Revoke()) },
		"locked":     func(c *vfs.Control) { ok(t, c.SetWritable(false)) },
		"unreadable": func(c *vfs.Control) { c.SetReadable(false) },
		"a route":    func(c *vfs.Control) { child(t, c, "a") },
		"released":   func(c *vfs.Control) { c.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			_, raw := store(t, sample)
			d, c, err := vfs.RevocableDir(vfs.Guarded(raw, nil))
			ok(t, err)
			ok(t, d.Close())
			if got := vfs.EnterLate(c.Gate, func() { set(c) }); got != (name == "nothing") {
				t.Errorf("entered: %v", got)
			}
		})
	}
}

// TestMaxDerived: a guest makes no gate below gate without end.
func TestMaxDerived(t *testing.T) {
	d, _, _ := guarded(t, sample)
	for range vfs.MaxDerived - 1 { // guarded has derived one
		next, c, err := vfs.RevocableDir(d)
		ok(t, err)
		c.Release()
		d = next
	}
	_, _, err := vfs.RevocableDir(d)
	is(t, "one more", err, vfs.Limit)
	_, err = d.Stat(t.Context())
	ok(t, err)
}

// TestClosed: a reference that was closed is stale, whoever else holds what it led
// to, and revoked once that is.
func TestClosed(t *testing.T) {
	d, c, _ := guarded(t, sample)
	h := hold(t, d)
	dup, err := vfs.Dup(d)
	ok(t, err)
	h.dir = dup.(vfs.Dir)
	others := hold(t, d)
	h.content.Close()
	h.content, err = vfs.Open(t.Context(), others.file)
	ok(t, err)
	ok(t, h.dir.Close())
	ok(t, h.file.Close())
	ok(t, h.link.Close())
	try := func(want vfs.Code) {
		t.Helper()
		for _, o := range ops {
			if o.name != "read a content" { // which outlives its file
				is(t, o.name, o.do(t.Context(), h), want)
			}
		}
	}
	try(vfs.Stale)
	tryAll(t, "held by others", others, "", "")
	ok(t, c.Revoke())
	try(vfs.Revoked)
}

func TestAttenuatedFiles(t *testing.T) {
	d, _, _ := guarded(t, sample)
	ro, err := vfs.ReadOnlyFile(fileAt(t, d, "f"))
	ok(t, err)
	again, _, err := vfs.RevocableFile(ro)
	ok(t, err)
	dup, err := vfs.Dup(again)
	ok(t, err)
	for what, f := range map[string]vfs.File{"readOnly": ro, "revocable of readOnly": again, "a reference to it": dup.(vfs.File)} {
		for _, o := range ops {
			h := held{dir: d, file: f}
			switch o.name {
			case "write", "append", "truncate", "replace a file":
				is(t, what+": "+o.name, o.do(t.Context(), h), vfs.ReadOnly)
			case "read", "version", "stat a file":
				is(t, what+": "+o.name, o.do(t.Context(), h), "")
			}
		}
	}
}

// TestConditionsReadWhatTheyAreOn: a condition on a version is a look at the
// content, so that it is denied where reading is, whether or not it holds. Other
// conditions and changes go on.
func TestConditionsReadWhatTheyAreOn(t *testing.T) {
	right := vfs.If{Is: sha256.Sum256([]byte("there"))}
	wrong := vfs.If{Is: sha256.Sum256([]byte("not there"))}
	for name, change := range map[string]func(ctx context.Context, src, d vfs.Dir, f vfs.File, c vfs.If) error{
		"replace": func(ctx context.Context, _, d vfs.Dir, _ vfs.File, c vfs.If) error {
			_, err := d.Replace(ctx, "there", strings.NewReader("x"), c)
			return err
		},
		"install": func(ctx context.Context, _, d vfs.Dir, _ vfs.File, c vfs.If) error {
			_, err := vfs.Install(ctx, d, "there", strings.NewReader("x"), false, c)
			return err
		},
		"replace a file": func(ctx context.Context, _, _ vfs.Dir, f vfs.File, c vfs.If) error {
			_, err := vfs.ReplaceFile(ctx, f, strings.NewReader("x"), c)
			return err
		},
		"write": func(ctx context.Context, _, _ vfs.Dir, f vfs.File, c vfs.If) error {
			_, err := f.WriteAt(ctx, []byte("x"), 0, c)
			return err
		},
		"append": func(ctx context.Context, _, _ vfs.Dir, f vfs.File, c vfs.If) error {
			_, err := vfs.Append(ctx, f, []byte("x"), c)
			return err
		},
		"truncate": func(ctx context.Context, _, _ vfs.Dir, f vfs.File, c vfs.If) error { return f.Truncate(ctx, 1, c) },
		"remove":   func(ctx context.Context, _, d vfs.Dir, _ vfs.File, c vfs.If) error { return d.Remove(ctx, "there", c) },
		"rename onto it": func(ctx context.Context, src, d vfs.Dir, _ vfs.File, c vfs.If) error {
			return src.Rename(ctx, "other", d, "there", vfs.If{}, c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, raw := store(t, nil)
			ok(t, put(t.Context(), raw, "there", "there"))
			ok(t, put(t.Context(), raw, "other", "other"))
			src := vfs.Guarded(raw, nil)
			d, control := controlled(t, src)
			f := fileAt(t, d, "there")
			control.SetReadable(false)
			for what, c := range map[string]vfs.If{"that holds": right, "that does not": wrong} {
				is(t, "a condition "+what, change(t.Context(), src, d, f, c), vfs.Denied)
			}
			if got := read(t, raw, "there"); got != "there" {
				t.Errorf("it became %q", got)
			}
			if name != "rename onto it" { // which needs its target's version
				is(t, "no condition", change(t.Context(), src, d, f, vfs.If{}), "")
				return
			}
			control.SetReadable(true)
			is(t, "a condition that holds", change(t.Context(), src, d, f, right), "")
		})
	}
}

func TestOrderOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name           string
		set            func(c *vfs.Control)
		reads, changes vfs.Code
	}{
		{"revoked", func(c *vfs.Control) {
			c.SetReadable(false)
			c.SetWritable(false)
			c.ExpireAt(time.Now())
			c.Revoke()
		}, vfs.Revoked, vfs.Revoked},
		{"expired", func(c *vfs.Control) {
			c.SetReadable(false)
			c.SetWritable(false)
			c.ExpireAt(time.Now())
			time.Sleep(time.Millisecond)
		}, vfs.Expired, vfs.Expired},
		{"denied and readOnly", func(c *vfs.Control) { c.SetReadable(false); c.SetWritable(false) }, vfs.Denied, vfs.ReadOnly},
		{"readOnly", func(c *vfs.Control) { c.SetWritable(false) }, "", vfs.ReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, control, raw := guarded(t, sample, vfs.Guard{Hides: vfs.MatchPaths(func(path string) bool { return path == "f" })})
				other, _, _ := guarded(t, sample)
				c.set(control)
				ctx := t.Context()
				for _, name := range []string{"..", "f", "missing", "bad\n", "z"} {
					reads := c.reads
					_, err := d.Lookup(ctx, name)
					switch {
					case reads != "":
						is(t, "lookup "+name, err, reads)
					case name == "f":
						is(t, "lookup "+name, err, vfs.Denied)
					}
					changes := c.changes
					if name == "f" && changes == vfs.ReadOnly {
						changes = vfs.Denied // of what is hidden, denied comes first
					}
					is(t, "put "+name, put2(ctx, d, name), changes)
					_, err = d.Create(ctx, name)
					is(t, "create "+name, err, changes)
					_, err = d.Mkdir(ctx, name)
					is(t, "mkdir "+name, err, changes)
					is(t, "remove "+name, d.Remove(ctx, name, vfs.If{}), changes)
					renames := changes
					if c.reads == vfs.Denied {
						renames = vfs.Denied // the source must be readable
					}
					for what, dst := range map[string]vfs.Dir{"itself": d, "another": other, "nobody's": raw} {
						is(t, "rename "+name+" to "+what, d.Rename(ctx, name, dst, "..", vfs.If{}, vfs.If{}), renames)
					}
					if got := vfs.CodeOf(other.Rename(ctx, "..", d, name, vfs.If{}, vfs.If{})); got != changes {
						t.Errorf("rename from .. to %q of another: %q, want %q", name, got, changes)
					}
				}
			})
		})
	}
}

func put2(ctx context.Context, d vfs.Dir, name string) error {
	_, err := d.Replace(ctx, name, nil, vfs.If{})
	return err
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, c, _ := guarded(t, sample)
		h := hold(t, d)
		sub, below := controlled(t, dirAt(t, d, "a"))
		told := false
		vfs.OnRevoke(sub, func(err error) { is(t, "told", err, vfs.Expired); told = true })
		c.ExpireAt(time.Now().Add(time.Hour))
		c.ExpireAt(time.Now().Add(time.Minute))
		c.ExpireAt(time.Now().Add(time.Hour)) // it was to expire before
		below.ExpireAt(time.Now().Add(2 * time.Minute))
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		tryAll(t, "in time", h, "", "")
		time.Sleep(1)
		synctest.Wait()
		tryAll(t, "late", h, vfs.Expired, vfs.Expired)
		if _, err := sub.Stat(t.Context()); vfs.CodeOf(err) != vfs.Expired || !told || !below.Revoked() {
			t.Errorf("below: %v, told %v", err, told)
		}
		c.ExpireAt(time.Now().Add(time.Hour))
		is(t, "revived", func() error { _, err := d.Stat(t.Context()); return err }(), vfs.Expired)
		ok(t, c.Revoke())
		_, err := d.Stat(t.Context())
		is(t, "revoked then", err, vfs.Revoked)
	})
}
