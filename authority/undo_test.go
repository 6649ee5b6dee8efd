package authority_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/authority"
	"capd/backend/physical"
	"capd/database"
	"capd/history"
	"capd/record"
	"capd/shelf"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// kept is a host with a history, on a directory of the disk, and a grant on all of it.
type kept struct {
	*authority.Host
	t       testing.TB
	unkept  bool   // there is no history
	dir     string // what is served
	state   string
	db      *database.DB
	log     *record.Log
	shelf   *shelf.Shelf
	store   *physical.Store
	journal *history.Journal
	options authority.Options
	bounds  history.Bounds
	secret  []byte
	id      string
	root    vfs.Dir
}

func keep(t *testing.T, o physical.Options) *kept {
	t.Helper()
	k := &kept{t: t}
	k.begin(o)
	return k
}

// begin opens k in directories of its own, and grants all of it.
func (k *kept) begin(o physical.Options) {
	k.t.Helper()
	short, err := os.MkdirTemp("", "u") // sockets have short paths
	check.OK(k.t, err)
	k.t.Cleanup(func() { check.OK(k.t, os.RemoveAll(short)) })
	k.dir, k.state = k.t.TempDir(), short
	k.open(o)
	k.t.Cleanup(k.close)
	g, secret, err := k.Grant(context.Background(), "agent", "", false)
	check.OK(k.t, err)
	k.secret, k.id = secret[:], g.ID
	k.restore()
}

func (k *kept) open(o physical.Options) {
	k.t.Helper()
	st, err := state.Open(k.state)
	check.OK(k.t, err)
	check.OK(k.t, st.Make())
	k.db, err = database.Open(st, database.Options{})
	check.OK(k.t, err)
	k.log, err = record.Open(k.db, record.Options{})
	check.OK(k.t, err)
	check.OK(k.t, state.MakeDir(st.Shelf()))
	k.shelf, err = shelf.OpenAmbient(st.Shelf())
	check.OK(k.t, err)
	k.journal, err = history.Open(k.db, k.shelf, func(string) bool { return true }, history.Options{Bounds: k.bounds})
	check.OK(k.t, err)
	k.store, err = physical.OpenAmbient(k.dir, o)
	check.OK(k.t, err)
	a := k.options
	a.DB, a.Record = k.db, k.log
	if !k.unkept {
		a.History = k.journal
	}
	k.Host = authority.Open(k.store.Root(), a)
	check.OK(k.t, k.Settle(k.t.Context()))
}

func (k *kept) restore() {
	k.t.Helper()
	n, _, err := k.Restore(k.t.Context(), k.secret)
	check.OK(k.t, err)
	k.root = n.(vfs.Dir)
}

func (k *kept) close() {
	if k.root != nil {
		k.root.Close()
		k.root = nil
	}
	check.OK(k.t, k.Host.Close())
	check.OK(k.t, k.store.Close())
	check.OK(k.t, k.log.Close())
	check.OK(k.t, k.db.Close())
	check.OK(k.t, k.shelf.Close())
}

func (k *kept) put(path, text string) vfs.Version {
	k.t.Helper()
	v, err := vfs.Put(k.t.Context(), k.root, path, strings.NewReader(text), vfs.If{})
	check.OK(k.t, err)
	return v
}

func (k *kept) in(path string, do func(d vfs.Dir, name string) error) {
	k.t.Helper()
	d, name, release, err := vfs.WalkParent(k.t.Context(), k.root, path)
	check.OK(k.t, err)
	defer release()
	check.OK(k.t, do(d, name))
}

func (k *kept) undo(w vfs.Undo) vfs.Undone {
	k.t.Helper()
	done, err := vfs.UndoIn(k.t.Context(), k.root, w)
	check.OK(k.t, err)
	return done
}

// shows fails the test unless the tree, as the disk has it, is as want says: "a=text b/ b/c=more".
func (k *kept) shows(want string) {
	k.t.Helper()
	if got := treeOf(k.t, k.dir); got != want {
		k.t.Fatalf("the tree is %q, not %q", got, want)
	}
}

func treeOf(t testing.TB, dir string) string {
	t.Helper()
	var all []string
	check.OK(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil || rel == ".":
			return err
		case strings.HasPrefix(e.Name(), ".capd-"):
			return filepath.SkipDir
		case e.IsDir():
			all = append(all, rel+"/")
			return nil
		case e.Type()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			all = append(all, rel+"->"+to)
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		mark := "="
		if fi.Mode()&0o100 != 0 {
			mark = "*"
		}
		all = append(all, rel+mark+string(text))
		return err
	}))
	return strings.Join(all, " ")
}

// TestUndo: each kind of change, alone, is undone, and the undo of it, and that again.
func TestUndo(t *testing.T) {
	exec := true
	begin := "a=first d/ d/f=inner e/ x*run"
	for _, c := range []struct {
		name  string
		do    func(k *kept)
		after string
	}{
		{"put", func(k *kept) { k.put("a", "second") }, "a=second d/ d/f=inner e/ x*run"},
		{"put of a new file", func(k *kept) { k.put("b", "new") }, "a=first b=new d/ d/f=inner e/ x*run"},
		{"put of an executable file", func(k *kept) { k.put("x", "walk") }, "a=first d/ d/f=inner e/ x*walk"},
		{"put where a version is", func(k *kept) {
			k.in("a", func(d vfs.Dir, name string) error {
				v, err := d.Replace(t.Context(), name, strings.NewReader("1"), vfs.If{})
				check.OK(t, err)
				_, err = d.Replace(t.Context(), name, strings.NewReader("first"), vfs.If{Is: v})
				check.OK(t, err)
				_, err = d.Replace(t.Context(), name, strings.NewReader("third"), vfs.If{})
				return err
			})
		}, "a=third d/ d/f=inner e/ x*run"},
		{"create", func(k *kept) {
			k.in("d/n", func(d vfs.Dir, name string) error { return closed(d.Create(t.Context(), name)) })
		}, "a=first d/ d/f=inner d/n= e/ x*run"},
		{"mkdir", func(k *kept) {
			k.in("d/n", func(d vfs.Dir, name string) error { return closed(d.Mkdir(t.Context(), name)) })
		}, "a=first d/ d/f=inner d/n/ e/ x*run"},
		{"remove of a file", func(k *kept) {
			k.in("x", func(d vfs.Dir, name string) error { return d.Remove(t.Context(), name, vfs.If{}) })
		}, "a=first d/ d/f=inner e/"},
		{"remove of a directory", func(k *kept) {
			k.in("e", func(d vfs.Dir, name string) error { return d.Remove(t.Context(), name, vfs.If{}) })
		}, "a=first d/ d/f=inner x*run"},
		{"move of a file", func(k *kept) {
			k.in("a", func(d vfs.Dir, name string) error { return d.Rename(t.Context(), name, d, "z", vfs.If{}, vfs.If{}) })
		}, "d/ d/f=inner e/ x*run z=first"},
		{"move over a file", func(k *kept) {
			k.in("a", func(d vfs.Dir, name string) error {
				return d.Rename(t.Context(), name, d, "x", vfs.If{}, vfs.If{Over: true})
			})
		}, "d/ d/f=inner e/ x=first"},
		{"move of a directory over one", func(k *kept) {
			k.in("d", func(d vfs.Dir, name string) error {
				return d.Rename(t.Context(), name, d, "e", vfs.If{}, vfs.If{Over: true})
			})
		}, "a=first e/ e/f=inner x*run"},
		{"write", func(k *kept) {
			k.file("a", func(f vfs.File) error { _, err := f.WriteAt(t.Context(), []byte("XX"), 1, vfs.If{}); return err })
		}, "a=fXXst d/ d/f=inner e/ x*run"},
		{"append", func(k *kept) {
			k.file("a", func(f vfs.File) error { _, err := vfs.Append(t.Context(), f, []byte("!"), vfs.If{}); return err })
		}, "a=first! d/ d/f=inner e/ x*run"},
		{"truncate", func(k *kept) {
			k.file("x", func(f vfs.File) error { return f.Truncate(t.Context(), 1, vfs.If{}) })
		}, "a=first d/ d/f=inner e/ x*r"},
		{"attributes", func(k *kept) {
			k.file("a", func(f vfs.File) error {
				return vfs.SetAttributes(t.Context(), f, vfs.Attributes{Exec: &exec}, vfs.If{})
			})
		}, "a*first d/ d/f=inner e/ x*run"},
		{"a tree", func(k *kept) {
			k.in("d/f", func(d vfs.Dir, name string) error { return d.Remove(t.Context(), name, vfs.If{}) })
			k.in("d", func(d vfs.Dir, name string) error { return d.Remove(t.Context(), name, vfs.If{}) })
			k.put("d", "a file now")
		}, "a=first d=a file now e/ x*run"},
	} {
		for _, portable := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: ", portable"}[portable], func(t *testing.T) {
				k := keep(t, physical.Options{Portable: portable})
				for path, text := range map[string]string{"a": "first", "d/f": "inner", "x": "run"} {
					check.OK(t, os.MkdirAll(filepath.Join(k.dir, filepath.Dir(path)), 0o755))
					check.OK(t, os.WriteFile(filepath.Join(k.dir, path), []byte(text), 0o644))
				}
				check.OK(t, os.Chmod(filepath.Join(k.dir, "x"), 0o755))
				check.OK(t, os.Mkdir(filepath.Join(k.dir, "e"), 0o755))
				c.do(k)
				k.shows(c.after)
				first := k.undo(vfs.Undo{SinceMs: 1})
				k.shows(begin)
				second := k.undo(vfs.Undo{ID: first.ID})
				k.shows(c.after)
				k.undo(vfs.Undo{ID: second.ID})
				k.shows(begin)
				page, err := vfs.History(t.Context(), k.root, vfs.PastQuery{})
				check.OK(t, err)
				if n := len(page.Entries); page.SinceMs != 0 || n < 4 || !page.Entries[0].Undoes || page.Entries[1].UndoneBy != page.Entries[0].ID {
					t.Errorf("history: %+v", page)
				}
			})
		}
	}
}

func closed[N vfs.Node](n N, err error) error {
	if err == nil {
		n.Close()
	}
	return err
}

func (k *kept) file(path string, do func(vfs.File) error) {
	k.t.Helper()
	f, err := vfs.WalkFile(k.t.Context(), k.root, path)
	check.OK(k.t, err)
	defer f.Close()
	check.OK(k.t, do(f))
}

// TestUndoRefuses: what is no longer as the change left it is not undone, and nothing else is then.
func TestUndoRefuses(t *testing.T) {
	k := keep(t, physical.Options{})
	k.put("a", "one")
	k.put("b", "one")
	k.put("a", "two")
	check.OK(t, os.WriteFile(filepath.Join(k.dir, "b"), []byte("somebody else's"), 0o644))
	_, err := vfs.UndoIn(t.Context(), k.root, vfs.Undo{SinceMs: 1})
	check.Is(t, "undo", err, vfs.Conflict)
	if !strings.Contains(err.Error(), "b: ") {
		t.Errorf("it says %v", err)
	}
	k.shows("a=two b=somebody else's")
	dry := k.undo(vfs.Undo{SinceMs: 1, DryRun: true})
	if len(dry.Steps) != 2 || dry.Steps[0].Err != nil || vfs.CodeOf(dry.Steps[1].Err) != vfs.Conflict {
		t.Errorf("a preview says %+v", dry.Steps)
	}
	k.undo(vfs.Undo{Last: 1})
	k.shows("a=one b=somebody else's")

	first := k.history().Entries
	_, err = vfs.UndoIn(t.Context(), k.root, vfs.Undo{ID: first[1].ID})
	check.Is(t, "undo", err, vfs.Conflict) // it was undone already
	content, err := vfs.OpenPast(t.Context(), k.root, "a", first[0].Changes[0].Before)
	check.OK(t, err)
	defer content.Close()
	if text, err := io.ReadAll(io.NewSectionReader(content, 0, content.Size())); err != nil || string(text) != "two" {
		t.Errorf("it was %q, %v", text, err)
	}
}

// TestUndoOfMoveTakesNothingElse: a file that took the place of one that was moved there stays, even if it has the size and the time of that one.
func TestUndoOfMoveTakesNothingElse(t *testing.T) {
	move := func(k *kept, from, to string) {
		k.in(from, func(d vfs.Dir, name string) error { return d.Rename(t.Context(), name, d, to, vfs.If{}, vfs.If{}) })
	}
	for _, c := range []struct {
		name  string
		since func(k *kept)
		after string
	}{
		{"it was replaced", func(k *kept) { k.put("b", "other") }, "b=other"},
		{"it was moved away", func(k *kept) { move(k, "b", "c"); k.put("b", "other") }, "b=other c=moved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := keep(t, physical.Options{})
			k.put("a", "moved")
			fi, err := os.Stat(filepath.Join(k.dir, "a"))
			check.OK(t, err)
			move(k, "a", "b")
			id := k.history().Entries[0].ID
			c.since(k)
			check.OK(t, os.Chtimes(filepath.Join(k.dir, "b"), fi.ModTime(), fi.ModTime()))
			_, err = vfs.UndoIn(t.Context(), k.root, vfs.Undo{ID: id})
			check.Is(t, "undo", err, vfs.Conflict)
			k.shows(c.after)
			for last := int64(0); last != id; { // in order it is undone
				last = k.undo(vfs.Undo{Last: 1}).Entries[0]
			}
			k.shows("a=moved")
		})
	}
}

// TestUndoNeedsRights: undo is what its inverse changes are to whoever asks.
func TestUndoNeedsRights(t *testing.T) {
	k := keep(t, physical.Options{})
	k.in("d", func(d vfs.Dir, name string) error { return closed(d.Mkdir(t.Context(), name)) })
	k.put("d/made", "x")
	k.put("outside", "x")
	k.in("outside", func(d vfs.Dir, name string) error {
		in, err := vfs.WalkDir(t.Context(), d, "d")
		check.OK(t, err)
		defer in.Close()
		return d.Rename(t.Context(), name, in, "inside", vfs.If{}, vfs.If{})
	})
	narrow := func(r membrane.Rights) vfs.Dir {
		n, err := membrane.Narrow(k.root, r)
		check.OK(t, err)
		t.Cleanup(func() { n.Close() })
		return n.(vfs.Dir)
	}
	for _, c := range []struct {
		rights membrane.Rights
		want   vfs.Code
	}{
		{membrane.AllRights &^ membrane.Read, vfs.Denied},
		{membrane.AllRights &^ membrane.Move, vfs.ReadOnly},
		{membrane.AllRights &^ membrane.Write, vfs.ReadOnly},
	} {
		_, err := vfs.UndoIn(t.Context(), narrow(c.rights), vfs.Undo{Last: 1})
		check.Is(t, "undo", err, c.want)
	}
	sub, err := vfs.WalkDir(t.Context(), k.root, "d")
	check.OK(t, err)
	defer sub.Close()
	_, err = vfs.UndoIn(t.Context(), sub, vfs.Undo{Last: 1}) // it came from outside of d
	check.Is(t, "undo", err, vfs.Denied)
	page, err := vfs.History(t.Context(), sub, vfs.PastQuery{})
	check.OK(t, err)
	if e := page.Entries; len(e) != 2 || !e[0].Outside || e[1].Outside || e[1].Changes[0].Path != "made" {
		t.Errorf("d has the history %+v", e)
	}
	k.undo(vfs.Undo{Last: 1})
	_, err = vfs.UndoIn(t.Context(), narrow(membrane.AllRights&^membrane.Delete), vfs.Undo{Last: 1}) // it would remove what was made
	check.Is(t, "undo", err, vfs.ReadOnly)
	k.shows("d/ d/made=x outside=x")

	// The operator needs none of the guest's rights, even when the grant has ended.
	_, err = k.Revoke("agent")
	check.OK(t, err)
	_, err = vfs.UndoIn(t.Context(), k.root, vfs.Undo{Last: 1})
	check.Is(t, "undo", err, vfs.Revoked)
	_, err = k.UndoOf(t.Context(), "agent", vfs.Undo{SinceMs: 1})
	check.OK(t, err)
	k.shows("")
	_, err = k.PastOf(t.Context(), "nobody", vfs.PastQuery{})
	check.Is(t, "undo", err, vfs.NotFound)
}

// TestUndoIsBounded: of many changes of a file the first content stays; then the oldest changes go, and history says so.
func TestUndoIsBounded(t *testing.T) {
	k := keep(t, physical.Options{})
	k.close()
	k.bounds = history.Bounds{Changes: 20, Bytes: 100}
	k.open(physical.Options{})
	k.restore()
	k.put("a", "the first")
	for i := range 30 {
		k.put("a", strings.Repeat("x", i))
	}
	if page := k.history(); page.SinceMs != 0 || len(page.Entries) > 20 {
		t.Errorf("%d changes are kept, complete since %d", len(page.Entries), page.SinceMs)
	}
	k.undo(vfs.Undo{SinceMs: 1})
	k.shows("")
	for i := range 30 {
		k.put(string(rune('a'+i%26))+string(rune('a'+i/26)), "x")
	}
	page := k.history()
	if len(page.Entries) > 20 || page.SinceMs == 0 {
		t.Errorf("%d changes are kept, complete since %d", len(page.Entries), page.SinceMs)
	}
	_, err := vfs.UndoIn(t.Context(), k.root, vfs.Undo{SinceMs: 1})
	check.Is(t, "undo", err, vfs.NotFound)
	all, err := os.ReadDir(filepath.Join(k.state, "shelf"))
	check.OK(t, err)
	if len(all) > 20 {
		t.Errorf("%d files are kept", len(all))
	}
}

func (k *kept) history() vfs.PastPage {
	k.t.Helper()
	page, err := vfs.History(k.t.Context(), k.root, vfs.PastQuery{})
	check.OK(k.t, err)
	return page
}

// hurried says that what is merely repeated is repeated less.

// TestUndoOfShortTurn: a turn of which the oldest changes are not kept any more is not undone in part without a word.
func TestUndoOfShortTurn(t *testing.T) {
	k := keep(t, physical.Options{})
	k.close()
	k.bounds = history.Bounds{Changes: 20, Bytes: 1 << 20}
	k.open(physical.Options{})
	k.restore()
	all := k.root
	turn := func(name string, from, n int) {
		d, err := membrane.InTurn(all, name)
		check.OK(t, err)
		defer d.Close()
		k.root = d
		for i := range n {
			k.put(fmt.Sprint("f", from+i), "x")
		}
		k.root = all
	}
	turn("long", 10, 30)
	turn("other", 40, 3)
	_, err := vfs.UndoIn(t.Context(), k.root, vfs.Undo{Turn: "long"})
	check.Is(t, "undo", err, vfs.NotFound)
	if !strings.Contains(err.Error(), "not kept any more") {
		t.Errorf("it says %v", err)
	}
	k.undo(vfs.Undo{Turn: "other"})
	k.undo(vfs.Undo{Last: 1})
	if _, err := os.Stat(filepath.Join(k.dir, "f39")); !os.IsNotExist(err) {
		t.Errorf("the last change was not undone: %v", err)
	}
}
