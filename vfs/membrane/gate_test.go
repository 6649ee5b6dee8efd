package membrane_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// deep returns views of d, each derived from the one before, with the controls of those
// that have one.
func deep(t testing.TB, d vfs.Dir, depth int) (views []vfs.Dir, controls []*membrane.Control) {
	t.Helper()
	for i := range depth {
		if i%2 == 0 {
			var c *membrane.Control
			d, c = check.Controlled(t, d)
			controls = append(controls, c)
		} else {
			d = check.DirAt(t, d, "down")
		}
		views = append(views, d)
	}
	return views, controls
}

// well is a directory that is practically infinitely deep. At every level it has what
// hold needs.
func well(t testing.TB, depth int) vfs.Dir {
	t.Helper()
	s, raw := check.Store(t, nil)
	d, path := raw, ""
	for range depth {
		check.OK(t, check.Put(t.Context(), d, "f", "content"))
		check.OK(t, vfstest.Symlink(s.Root())(vfs.Join(path, "l"), "f"))
		below, err := d.Mkdir(t.Context(), "a")
		check.OK(t, err)
		check.OK(t, check.Put(t.Context(), below, "f", "content"))
		d, err = d.Mkdir(t.Context(), "down")
		check.OK(t, err)
		path = vfs.Join(path, "down")
	}
	return raw
}

func TestModesAtEveryDepth(t *testing.T) {
	const depth = 9
	views, controls := deep(t, membrane.Guarded(well(t, depth), nil), depth)
	var all []check.Held
	for _, v := range views {
		all = append(all, check.Hold(t, v))
	}
	for _, m := range []struct {
		name           string
		set, undo      func(c *membrane.Control)
		reads, changes vfs.Code
	}{
		{"locked", func(c *membrane.Control) { check.OK(t, c.SetWritable(false)) }, func(c *membrane.Control) { check.OK(t, c.SetWritable(true)) }, "", vfs.ReadOnly},
		{"unreadable", func(c *membrane.Control) { c.SetReadable(false) }, func(c *membrane.Control) { c.SetReadable(true) }, vfs.Denied, ""},
	} {
		for at, c := range controls {
			m.set(c)
			for i, h := range all {
				what := fmt.Sprintf("%s at %d, seen from %d", m.name, 2*at, i)
				reads, changes := m.reads, m.changes
				if i < 2*at {
					reads, changes = "", ""
				}
				for _, o := range check.Ops {
					switch {
					case !o.Changes:
						check.Is(t, what+": "+o.Name, o.Do(t.Context(), h), reads)
					case m.name == "locked":
						check.Is(t, what+": "+o.Name, o.Do(t.Context(), h), changes)
					}
				}
			}
			m.undo(c)
			for _, h := range all {
				check.TryAll(t, "unlocked again", h, "", "")
			}
		}
	}
	// From the bottom up, so that those above are still alive.
	for at := len(controls) - 1; at >= 0; at-- {
		for range 2 {
			check.OK(t, controls[at].Revoke())
		}
		for i, h := range all {
			want := vfs.Code("")
			if i >= 2*at {
				want = vfs.Revoked
			}
			check.TryAll(t, fmt.Sprintf("revoked at %d, seen from %d", 2*at, i), h, want, want)
		}
	}
	for _, h := range all {
		h.Close()
	}
	for _, v := range views {
		check.OK(t, v.Close())
		check.OK(t, v.Close())
	}
}

func TestRevokeReachesWhatWasDerived(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	readOnly, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	revocable, _ := check.Controlled(t, readOnly)
	f, err := membrane.ReadOnlyFile(check.FileAt(t, d, "f"))
	check.OK(t, err)
	g, _, err := membrane.RevocableFile(f)
	check.OK(t, err)
	content, err := vfs.Open(t.Context(), g)
	check.OK(t, err)
	sub := check.DirAt(t, revocable, "a/b/c")
	told := 0
	membrane.OnRevoke(sub, func(err error) { check.Is(t, "told", err, vfs.Revoked); told++ })
	stop := membrane.OnRevoke(sub, func(error) { t.Error("told, although stopped") })
	stop()

	// These stay when the files that they come from are closed.
	check.OK(t, f.Close())
	check.OK(t, g.Close())
	_, err = content.ReadAt(make([]byte, 1), 0)
	check.OK(t, err)

	check.OK(t, c.Revoke())
	for what, v := range map[string]vfs.Dir{"d": d, "readOnly": readOnly, "revocable": revocable} {
		_, err := v.Lookup(t.Context(), "f")
		check.Is(t, what, err, vfs.Revoked)
		_, err = membrane.ReadOnlyDir(v)
		check.Is(t, what+", narrowed", err, vfs.Revoked)
		_, _, err = membrane.RevocableDir(v)
		check.Is(t, what+", revocable", err, vfs.Revoked)
		_, err = vfs.Walk(t.Context(), v, "l")
		check.Is(t, what+", walked", err, vfs.Revoked)
	}
	_, err = sub.Stat(t.Context())
	check.Is(t, "sub", err, vfs.Revoked)
	_, err = content.ReadAt(make([]byte, 1), 0)
	check.Is(t, "content", err, vfs.Revoked)
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	membrane.OnRevoke(sub, func(err error) { check.Is(t, "told at once", err, vfs.Revoked); told++ })
	if told != 2 {
		t.Error("not told at once")
	}
}

func TestAttenuationNeverComesBack(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	ro, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	sub, own := check.Controlled(t, check.DirAt(t, ro, "a"))
	check.OK(t, own.SetWritable(true))
	check.OK(t, c.SetWritable(false))
	check.OK(t, c.SetWritable(true))
	check.Is(t, "through readOnly", check.Put(t.Context(), ro, "f", "x"), vfs.ReadOnly)
	check.Is(t, "through revocable of readOnly", check.Put(t.Context(), sub, "f", "x"), vfs.ReadOnly)
	_, err = check.FileAt(t, sub, "f").Replace(t.Context(), nil, vfs.If{})
	check.Is(t, "a file of it", err, vfs.ReadOnly)
	check.Is(t, "renamed into it", d.Rename(t.Context(), "f", ro, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	check.Is(t, "renamed out of it", ro.Rename(t.Context(), "f", d, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	check.OK(t, check.Put(t.Context(), d, "f", "x"))
	if own, effective := own.Writable(); !own || effective {
		t.Errorf("below readOnly: own %v, effective %v", own, effective)
	}
	check.OK(t, c.SetWritable(false))
	if own, effective := own.Writable(); !own || effective {
		t.Errorf("below a lock: own %v, effective %v", own, effective)
	}
}

// TestEnterLate: what was seen of a gate does not let a change begin after the gate, or a
// route below it, has changed.
func TestEnterLate(t *testing.T) {
	for name, set := range map[string]func(c *membrane.Control){
		"nothing":    func(*membrane.Control) {},
		"revoked":    func(c *membrane.Control) { check.OK(t, c.Revoke()) },
		"locked":     func(c *membrane.Control) { check.OK(t, c.SetWritable(false)) },
		"unreadable": func(c *membrane.Control) { c.SetReadable(false) },
		"a route":    func(c *membrane.Control) { check.Child(t, c, "a") },
		"released":   func(c *membrane.Control) { c.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			_, raw := check.Store(t, check.Sample)
			d, c, err := membrane.RevocableDir(membrane.Guarded(raw, nil))
			check.OK(t, err)
			check.OK(t, d.Close())
			if got := membrane.EnterLate(c.Gate, func() { set(c) }); got != (name == "nothing") {
				t.Errorf("entered: %v", got)
			}
		})
	}
}

// TestMaxDerived: a guest cannot make gates below gates without end.
func TestMaxDerived(t *testing.T) {
	d, _, _ := check.Guarded(t, check.Sample)
	for range membrane.MaxDerived - 1 { // guarded has derived one
		next, c, err := membrane.RevocableDir(d)
		check.OK(t, err)
		c.Release()
		d = next
	}
	_, _, err := membrane.RevocableDir(d)
	check.Is(t, "one more", err, vfs.Limit)
	_, err = d.Stat(t.Context())
	check.OK(t, err)
}

// TestClosed: a closed reference is stale, whoever else holds its target. It is revoked
// after the target is.
func TestClosed(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	h := check.Hold(t, d)
	dup, err := vfs.Dup(d)
	check.OK(t, err)
	h.Dir = dup
	others := check.Hold(t, d)
	h.Content.Close()
	h.Content, err = vfs.Open(t.Context(), others.File)
	check.OK(t, err)
	check.OK(t, h.Dir.Close())
	check.OK(t, h.File.Close())
	check.OK(t, h.Link.Close())
	try := func(want vfs.Code) {
		t.Helper()
		for _, o := range check.Ops {
			if o.Name != "read a content" { // which outlives its file
				check.Is(t, o.Name, o.Do(t.Context(), h), want)
			}
		}
	}
	try(vfs.Stale)
	check.TryAll(t, "held by others", others, "", "")
	check.OK(t, c.Revoke())
	try(vfs.Revoked)
}

func TestAttenuatedFiles(t *testing.T) {
	d, _, _ := check.Guarded(t, check.Sample)
	ro, err := membrane.ReadOnlyFile(check.FileAt(t, d, "f"))
	check.OK(t, err)
	again, _, err := membrane.RevocableFile(ro)
	check.OK(t, err)
	dup, err := vfs.Dup(again)
	check.OK(t, err)
	for what, f := range map[string]vfs.File{"readOnly": ro, "revocable of readOnly": again, "a reference to it": dup} {
		for _, o := range check.Ops {
			h := check.Held{Dir: d, File: f}
			switch o.Name {
			case "write", "append", "truncate", "replace a file":
				check.Is(t, what+": "+o.Name, o.Do(t.Context(), h), vfs.ReadOnly)
			case "read", "version", "stat a file":
				check.Is(t, what+": "+o.Name, o.Do(t.Context(), h), "")
			}
		}
	}
}

// TestConditionsReadWhatTheyAreOn: a condition on a version looks at the content, so it
// is denied where reading is, whether or not it holds. Other conditions and changes work.
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
			_, err := f.Replace(ctx, strings.NewReader("x"), c)
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
			_, raw := check.Store(t, nil)
			check.OK(t, check.Put(t.Context(), raw, "there", "there"))
			check.OK(t, check.Put(t.Context(), raw, "other", "other"))
			src := membrane.Guarded(raw, nil)
			d, control := check.Controlled(t, src)
			f := check.FileAt(t, d, "there")
			control.SetReadable(false)
			for what, c := range map[string]vfs.If{"that holds": right, "that does not": wrong} {
				check.Is(t, "a condition "+what, change(t.Context(), src, d, f, c), vfs.Denied)
			}
			if got := check.Read(t, raw, "there"); got != "there" {
				t.Errorf("it became %q", got)
			}
			if name != "rename onto it" { // which needs its target's version
				check.Is(t, "no condition", change(t.Context(), src, d, f, vfs.If{}), "")
				return
			}
			control.SetReadable(true)
			check.Is(t, "a condition that holds", change(t.Context(), src, d, f, right), "")
		})
	}
}

func TestOrderOfRefusals(t *testing.T) {
	for _, c := range []struct {
		name           string
		set            func(c *membrane.Control)
		reads, changes vfs.Code
	}{
		{"revoked", func(c *membrane.Control) {
			c.SetReadable(false)
			c.SetWritable(false)
			c.ExpireAt(time.Now())
			c.Revoke()
		}, vfs.Revoked, vfs.Revoked},
		{"expired", func(c *membrane.Control) {
			c.SetReadable(false)
			c.SetWritable(false)
			c.ExpireAt(time.Now())
			time.Sleep(time.Millisecond)
		}, vfs.Expired, vfs.Expired},
		{"denied and readOnly", func(c *membrane.Control) { c.SetReadable(false); c.SetWritable(false) }, vfs.Denied, vfs.ReadOnly},
		{"readOnly", func(c *membrane.Control) { c.SetWritable(false) }, "", vfs.ReadOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, control, raw := check.Guarded(t, check.Sample, membrane.Guard{Hides: membrane.MatchPaths(func(path string) bool { return path == "f" })})
				other, _, _ := check.Guarded(t, check.Sample)
				c.set(control)
				ctx := t.Context()
				for _, name := range []string{"..", "f", "missing", "bad\n", "z"} {
					reads := c.reads
					_, err := d.Lookup(ctx, name)
					switch {
					case reads != "":
						check.Is(t, "lookup "+name, err, reads)
					case name == "f":
						check.Is(t, "lookup "+name, err, vfs.Denied)
					}
					changes := c.changes
					if name == "f" && changes == vfs.ReadOnly {
						changes = vfs.Denied // of what is hidden, denied comes first
					}
					check.Is(t, "put "+name, put2(ctx, d, name), changes)
					_, err = d.Create(ctx, name)
					check.Is(t, "create "+name, err, changes)
					_, err = d.Mkdir(ctx, name)
					check.Is(t, "mkdir "+name, err, changes)
					check.Is(t, "remove "+name, d.Remove(ctx, name, vfs.If{}), changes)
					renames := changes
					if c.reads == vfs.Denied {
						renames = vfs.Denied // the source must be readable
					}
					for what, dst := range map[string]vfs.Dir{"itself": d, "another": other, "nobody's": raw} {
						check.Is(t, "rename "+name+" to "+what, d.Rename(ctx, name, dst, "..", vfs.If{}, vfs.If{}), renames)
					}
					if got := vfs.CodeOf(other.Rename(ctx, "..", d, name, vfs.If{}, vfs.If{})); got != changes {
						t.Errorf("rename from .. to %q of another: %q, want %q", name, got, changes)
					}
				}
			})
		})
	}
}

// TestEnd: the end of a host is no revoke, but after it nothing works.
func TestEnd(t *testing.T) {
	d, c, _ := check.Guarded(t, check.Sample)
	h := check.Hold(t, d)
	c.SetReadable(false)
	check.OK(t, c.SetWritable(false))
	check.OK(t, c.End())
	check.TryAll(t, "ended", h, vfs.Stale, vfs.Stale)
	check.OK(t, c.Revoke())
	check.TryAll(t, "revoked then", h, vfs.Revoked, vfs.Revoked)
}

func put2(ctx context.Context, d vfs.Dir, name string) error {
	_, err := d.Replace(ctx, name, nil, vfs.If{})
	return err
}
