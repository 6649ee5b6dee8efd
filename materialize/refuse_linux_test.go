package materialize_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"capd/backend/memory"
	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/deny"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/search"
)

// backing is a case of a sync: what a program does, what is reported as left out, and
// what the Dir holds afterwards in addition to sample.
type backing struct {
	name    string
	exclude []string
	do      func(t *testing.T, w *work)
	left    []string
	holds   tree
}

// rename renames in the tree.
func (w *work) rename(t testing.TB, from, to string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(w.at(to)), 0o755))
	ok(t, os.Rename(w.at(from), w.at(to)))
}

func (w *work) link(t testing.TB, from, to string) {
	t.Helper()
	ok(t, os.Link(w.at(from), w.at(to)))
}

func (w *work) symlink(t *testing.T, target, path string) {
	t.Helper()
	ok(t, os.MkdirAll(filepath.Dir(w.at(path)), 0o755))
	replace(t, w.at(path), target)
}

var backings = []backing{
	{
		name: "a file with several names, moved",
		do: func(t *testing.T, w *work) {
			w.rename(t, "d/g", "m/g")
			w.link(t, "m/g", "m/h")
		},
		holds: tree{"d/g": "", "m": "dir", "m/g": "file:g", "m/h": "file:g"},
	},
	{
		name: "a file that is as it was, with a new name, looked at twice",
		do: func(t *testing.T, w *work) {
			w.link(t, "a", "a.bak")
			w.link(t, "d/g", "g")
			time.Sleep(30 * time.Millisecond) // by now its times vouch for it
			_, err := w.tree.Changes(t.Context())
			ok(t, err)
		},
		holds: tree{"a.bak": "file:old", "g": "file:g"},
	},
	{
		name: "a file with several names, changed",
		do: func(t *testing.T, w *work) {
			w.link(t, "a", "a.bak")
			f, err := os.OpenFile(w.at("a"), os.O_APPEND|os.O_WRONLY, 0)
			ok(t, err)
			_, err = f.WriteString(" and new")
			ok(t, err)
			ok(t, f.Close())
		},
		holds: tree{"a": "file:old and new", "a.bak": "file:old and new"},
	},
	{
		name: "a file with a name outside",
		do: func(t *testing.T, w *work) {
			w.rename(t, "d/g", "m/g")
			ok(t, os.Link(w.at("m/g"), filepath.Join(w.base, "outside")))
			w.write(t, "a", "new")
		},
		left:  []string{"d/g", "m/g"},
		holds: tree{"m": "dir", "a": "file:new"},
	},
	{
		name: "links within",
		do: func(t *testing.T, w *work) {
			w.symlink(t, "../pkg/cli.js", "bin/cli")
			w.write(t, "pkg/cli.js", "#!")
			w.symlink(t, "nowhere", "l")
			w.symlink(t, ".", "here")
			w.symlink(t, "d/e", "a")
			w.symlink(t, "x", "n")
		},
		holds: tree{
			"bin": "dir", "bin/cli": "link:../pkg/cli.js", "pkg": "dir", "pkg/cli.js": "file:#!",
			"l": "link:nowhere", "here": "link:.", "a": "link:d/e", "n": "link:x",
		},
	},
	{
		name: "links out",
		do: func(t *testing.T, w *work) {
			w.symlink(t, "/usr/bin/python3", "venv/bin/python")
			w.symlink(t, "python", "venv/bin/python3")
			w.symlink(t, "../../x", "venv/up")
			w.symlink(t, "gone/../../x", "winds")
		},
		left:  []string{"venv/bin/python", "venv/up", "winds"},
		holds: tree{"venv": "dir", "venv/bin": "dir", "venv/bin/python3": "link:python"},
	},
	{
		// Each link by itself seems to stay within, but "n/.." is above d/e if n is the
		// top.
		name: "links that lead out together",
		do: func(t *testing.T, w *work) {
			w.symlink(t, "../..", "d/e/n")
			w.symlink(t, "n/../..", "d/e/out")
		},
		left:  []string{"d/e/out"},
		holds: tree{"d/e/n": "link:../.."},
	},
	{
		name: "a link with which another leads out",
		do:   func(t *testing.T, w *work) { w.symlink(t, "../..", "winding/2/n"); w.symlink(t, "d/g", "g") },
		left: []string{"g", "winding/2/n"},
	},
	{
		name: "what nobody loses",
		do: func(t *testing.T, w *work) {
			w.write(t, ".env", "")
			ok(t, os.Remove(w.at("empty")))
		},
		left: []string{".env"}, holds: tree{"empty": ""},
	},
	{
		name: "a link that was left out, made again",
		do: func(t *testing.T, w *work) {
			w.symlink(t, "/etc/passwd", "abs")
			w.symlink(t, "abs/x", "by")
		},
		left: []string{"by"},
	},
	{
		name: "links that lead by others to one that was left out",
		do: func(t *testing.T, w *work) {
			w.symlink(t, ".", "top")
			w.symlink(t, "top/abs/x", "by")
			w.symlink(t, "winding/up/abs", "wound")
		},
		left: []string{"by", "wound"}, holds: tree{"top": "link:."},
	},
	{
		name: "a link with which another leads to one that was left out",
		do:   func(t *testing.T, w *work) { w.symlink(t, ".", "later"); w.write(t, "a", "new") },
		left: []string{"later"}, holds: tree{"a": "file:new"},
	},
	{
		name:    "a link to one that was excluded",
		exclude: []string{"abs"},
		do:      func(t *testing.T, w *work) { w.symlink(t, "abs/x", "by"); w.symlink(t, ".", "top") },
		left:    []string{"by"}, holds: tree{"top": "link:."},
	},
	{
		name:    "a link with which another leads to one that was excluded",
		exclude: []string{"abs"},
		do:      func(t *testing.T, w *work) { w.symlink(t, ".", "later"); w.write(t, "a", "new") },
		left:    []string{"later"}, holds: tree{"a": "file:new"},
	},
	{
		name: "a link with which another leads to what is guarded",
		do:   func(t *testing.T, w *work) { w.symlink(t, "hollow", "soon"); w.write(t, "a", "new") },
		left: []string{"soon"}, holds: tree{"a": "file:new"},
	},
	{
		name: "a link by one that stays, and seems to be gone",
		do: func(t *testing.T, w *work) {
			ok(t, os.Remove(w.at("own-hooks")))
			ok(t, unix.Mkfifo(w.at("own-hooks"), 0o600))
			w.symlink(t, "own-hooks/pre-commit", "by")
		},
		left: []string{"by", "own-hooks"},
	},
	{
		name: "something else where a link was left out",
		do:   func(t *testing.T, w *work) { w.write(t, "abs", "mine"); w.write(t, "a", "new") },
		left: []string{"abs"}, holds: tree{"a": "file:new"},
	},
	{
		name: "a directory that became a link out",
		do:   func(t *testing.T, w *work) { w.symlink(t, "/etc", "d"); w.write(t, "a", "new") },
		left: []string{"d"}, holds: tree{"a": "file:new"},
	},
	{
		name: "a directory that became a FIFO",
		do: func(t *testing.T, w *work) {
			ok(t, os.RemoveAll(w.at("d")))
			ok(t, unix.Mkfifo(w.at("d"), 0o600))
		},
		left: []string{"d"},
	},
	{
		name: "a name that may not be made",
		do:   func(t *testing.T, w *work) { w.rename(t, "d", "bad\x01name"); w.write(t, "a", "new") },
		left: []string{"bad\x01name", "d", "d/e", "d/e/f", "d/g", "d/up"}, holds: tree{"a": "file:new"},
	},
	{
		name: "withheld, and what became it",
		do: func(t *testing.T, w *work) {
			w.rename(t, "d/e/f", ".ssh/id")
			ok(t, os.WriteFile(w.at(".ssh/id"), []byte("changed in place"), 0o600))
			w.write(t, ".env", "old") // as a was
			ok(t, os.Remove(w.at("a")))
			ok(t, os.Remove(w.at("x")))
		},
		left: []string{".env", ".ssh", "a", "d/e/f"}, holds: tree{"x": ""},
	},
	{
		name:  "a directory that is gone",
		do:    func(t *testing.T, w *work) { ok(t, os.RemoveAll(w.at("d"))); w.write(t, "a", "new") },
		holds: tree{"a": "file:new", "d": "", "d/e": "", "d/e/f": "", "d/up": "", "d/g": ""},
	},
	{
		name: "a link to what is guarded",
		do: func(t *testing.T, w *work) {
			w.symlink(t, "sub/.git/hooks/pre-commit", "log")
			w.symlink(t, ".env", "e")
			w.symlink(t, "d/g", "fine")
			w.symlink(t, "ok/own-hooks/post-commit", "by-another")
			w.symlink(t, "../own-hooks", "ok/own-hooks")
			w.symlink(t, "round", "round")
		},
		left:  []string{"by-another", "e", "log", "ok/own-hooks"},
		holds: tree{"fine": "link:d/g", "ok": "dir", "round": "link:round"},
	},
	{
		name: "what is guarded, many times",
		do: func(t *testing.T, w *work) {
			for _, dir := range []string{"1", "2", "3"} {
				w.write(t, dir+"/.vscode/tasks.json", "{}")
				w.write(t, dir+"/f", "f")
			}
		},
		left:  []string{"1/.vscode", "2/.vscode", "3/.vscode"},
		holds: tree{"1": "dir", "1/f": "file:f", "2": "dir", "2/f": "file:f", "3": "dir", "3/f": "file:f"},
	},
	{
		name: "excluded", exclude: []string{"**/*.o", "out"},
		do: func(t *testing.T, w *work) {
			w.write(t, "n/m.o", "object")
			w.write(t, "n/m.c", "source")
			w.symlink(t, "/etc", "out/link")
			ok(t, os.RemoveAll(w.at("obj")))
		},
		left:  []string{"obj"}, // its d.o was not copied, and is not removed
		holds: tree{"n": "dir", "n/m.c": "file:source", "obj/d.c": ""},
	},
}

// TestBack: everything that a program did comes back, except for what cannot, which is
// named. Nothing is removed unless it is somewhere else then.
func TestBack(t *testing.T) {
	before := sample.with(tree{"abs": "link:/etc/passwd", "obj": "dir", "obj/d.o": "file:object", "obj/d.c": "file:source",
		"winding": "dir", "winding/2": "dir", "winding/2/n": "dir", "winding/2/by": "link:n/../..",
		"winding/up": "link:2/../..", "dangling": "link:later/abs", "dangles": "link:soon/kept/in", "own-hooks": "link:sub/.git/hooks"})
	secrets, triggers := deny.Must(deny.Secrets...), deny.Must(append([]string{"hollow/kept/**"}, deny.Triggers...)...)
	for _, b := range backings {
		t.Run(b.name, func(t *testing.T) {
			o := materialize.Options{}
			for _, text := range b.exclude {
				p, err := search.Compile(text)
				ok(t, err)
				o.Exclude = append(o.Exclude, p)
			}
			w := start(t, before, o, secrets.Guard(), triggers.Ask("it"))
			b.do(t, w)
			skipped(t, w.sync(t).Skipped, b.left...)
			w.holds(t, before.with(b.holds))
			again := w.sync(t)
			if len(again.Changes) > 0 {
				t.Errorf("the second Sync brings back %+v", again.Changes)
			}
			skipped(t, again.Skipped, b.left...)
		})
	}
}

// A directory with a withheld part is not removed. The rest of the changes comes back.
func TestBackHidden(t *testing.T) {
	before := sample.with(tree{"d/.env": "file:key"})
	w := start(t, before, materialize.Options{}, deny.Must(deny.Secrets...).Guard())
	ok(t, os.RemoveAll(w.at("d")))
	w.write(t, "a", "new")
	r := w.sync(t)
	skipped(t, r.Skipped, "d")
	w.holds(t, before.with(tree{"a": "file:new", "d/e": "", "d/e/f": "", "d/g": "", "d/up": ""}))
}

// However many changes a guard refuses, each is named and the rest comes back.
func TestBackManyRefused(t *testing.T) {
	w := start(t, sample, materialize.Options{}, deny.Must("**/*.pem").Ask("it"))
	var left []string
	for i := range 200 {
		left = append(left, fmt.Sprintf("k%03d.pem", i))
		w.write(t, left[i], "key")
	}
	w.write(t, "a", "new")
	skipped(t, w.sync(t).Skipped, left...)
	w.holds(t, sample.with(tree{"a": "file:new"}))
}

// A name that the store reserves stays behind like one that nobody may make, and the rest
// comes back.
func TestBackReserved(t *testing.T) {
	dir := t.TempDir()
	store, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	defer store.Close()
	put(t, store.Root(), "a", "old")
	put(t, store.Root(), "b", "moved")
	tr, err := newBase(t, t.TempDir()).New(t.Context(), membrane.Guarded(store.Root(), nil), materialize.Options{})
	ok(t, err)
	defer tr.Close()
	w := &work{journal: memory.New(memory.Limits{}).Root(), tree: tr, dir: tr.Path()}
	w.write(t, ".capd-staging-f", "f")
	w.write(t, ".capd-staging-d/f", "f")
	w.rename(t, "b", "d/.capd-staging-b")
	w.symlink(t, "a", ".capd-staging-l")
	w.write(t, "a", "new")
	w.write(t, "n", "new")
	skipped(t, w.sync(t).Skipped, ".capd-staging-d", ".capd-staging-f", ".capd-staging-l", "b", "d/.capd-staging-b")
	holds(t, store.Root(), tree{"a": "file:new", "n": "file:new", "b": "file:moved", "d": "dir"})
}

// limited is a Dir in which no links and executable files can be made, like one that is
// served elsewhere.
type limited struct{ vfs.Dir }

func TestBackLimited(t *testing.T) {
	s := newStore(t, sample)
	tr, err := newBase(t, t.TempDir()).New(t.Context(), limited{s.Root()}, materialize.Options{})
	ok(t, err)
	defer tr.Close()
	w := &work{store: s, journal: memory.New(memory.Limits{}).Root(), tree: tr, dir: tr.Path()}
	w.write(t, "a", "new")
	ok(t, os.Remove(w.at("l")))
	left := []string{"l"}
	for i := range 100 { // more than it tries one by one
		bin, link := fmt.Sprint("bin", i), fmt.Sprint("link", i)
		w.write(t, bin, "#!")
		ok(t, os.Chmod(w.at(bin), 0o755))
		w.symlink(t, "a", link)
		left = append(left, bin, link)
	}
	slices.Sort(left)
	skipped(t, w.sync(t).Skipped, left...)
	w.holds(t, sample.with(tree{"a": "file:new"}))
}

// If a directory could be copied only in part, nothing is known about the rest: it stays.
func TestBackCopiedInPart(t *testing.T) {
	s, plan := newStore(t, tree{"d": "dir", "d/f": "file:f"}), new(faultfs.Plan)
	plan.Fail(faultfs.List, faultfs.After, 1, vfs.Denied)
	tr, err := newBase(t, t.TempDir()).New(t.Context(), faultfs.New(s.Root(), plan), materialize.Options{})
	ok(t, err)
	defer tr.Close()
	skipped(t, tr.LeftOut(), "d")
	ok(t, os.RemoveAll(filepath.Join(tr.Path(), "d")))
	c, err := tr.Changes(t.Context())
	ok(t, err)
	skipped(t, c.Skipped, "d")
}

// A content that grows while it is copied has the same bound as one that was as long
// before.
func TestGrowing(t *testing.T) {
	for limit, code := range map[int64]vfs.Code{500: vfs.Limit, 5000: ""} {
		tr, err := newBase(t, t.TempDir()).New(t.Context(), growing{newStore(t, tree{"a": "file:" + strings.Repeat("x", 1000)}).Root()},
			materialize.Options{Bounds: materialize.Bounds{Bytes: limit}})
		if code != "" {
			is(t, "New", err, code)
			continue
		}
		ok(t, err)
		if got := readHost(t, tr.Path())["a"]; len(got) != len("file:")+1000 {
			t.Errorf("the copy is %q", got)
		}
		ok(t, tr.Close())
	}
}

// growing is a Dir whose files are longer than they say.
type growing struct{ vfs.Dir }

func (g growing) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := g.Dir.Lookup(ctx, name)
	if f, ok := n.(vfs.File); ok && err == nil {
		return short{f}, nil
	}
	return n, err
}

type short struct{ vfs.File }

func (s short) Stat(ctx context.Context) (vfs.Info, error) {
	i, err := s.File.Stat(ctx)
	i.Size = 1
	return i, err
}

// What a program made inaccessible is made accessible again, even if the host's user is not
// root: see TestCloseUnprivileged.
func TestBackClosed(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	w.write(t, "shut/deep/n", "n")
	ok(t, os.Remove(w.at("empty")))
	ok(t, os.Chmod(w.at("a"), 0))
	ok(t, os.Chmod(w.at("x"), 0o100))
	for _, path := range []string{"shut/deep/n", "shut/deep", "shut", "d/e", "d", ""} {
		ok(t, os.Chmod(w.at(path), 0))
	}
	skipped(t, w.sync(t).Skipped)
	w.holds(t, sample.with(tree{"shut": "dir", "shut/deep": "dir", "shut/deep/n": "file:n", "empty": ""}))
}

// Prune leaves what is named as it is.
func TestPrune(t *testing.T) {
	w := start(t, sample, materialize.Options{})
	ok(t, unix.Mkfifo(w.at("d/e/fifo"), 0o600))
	w.write(t, "deep/a/b/c", "c")
	for _, path := range []string{"deep/a", "d", ""} {
		ok(t, os.Chmod(w.at(path), 0))
	}
	ok(t, w.tree.Prune([]string{"d/e/fifo", "x", "hollow"}))
	_, err := os.Lstat(w.at("d/e/fifo"))
	ok(t, err)
	ok(t, os.Remove(w.at("d/e/fifo")))
	if got := readHost(t, w.dir); len(got) != 4 || got["d/e"] != "dir" || got["x"] != "exec:#!" || got["hollow"] != "dir" {
		t.Errorf("the directory holds %v", got)
	}
	_, err = w.tree.Changes(t.Context())
	is(t, "Changes after Prune", err, vfs.Stale)
}
