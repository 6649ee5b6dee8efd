package authority_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/authority"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/history"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/step"
	"capd/vfs/vfstest/check"
)

// bounded is a host whose history has these bounds.
func bounded(t *testing.T, b history.Bounds) *kept {
	t.Helper()
	k := &kept{t: t, bounds: b, options: authority.Options{Journal: memory.New(memory.Limits{}).Root()}}
	k.begin(physical.Options{})
	return k
}

// onShelf returns how many files, and bytes, are on the shelf.
func (k *kept) onShelf() (files int, bytes int64) {
	k.t.Helper()
	all, err := os.ReadDir(filepath.Join(k.state, "shelf"))
	check.OK(k.t, err)
	for _, e := range all {
		fi, err := e.Info()
		if err == nil {
			files, bytes = files+1, bytes+fi.Size()
		}
	}
	return files, bytes
}

// TestUndoKeepsWhatItNeeds: the changes of an undo fill the history, and do not push out what the undo has yet to bring back.
func TestUndoKeepsWhatItNeeds(t *testing.T) {
	for name, b := range map[string]history.Bounds{"changes": {Changes: 20}, "bytes": {Bytes: 100}} {
		t.Run(name, func(t *testing.T) {
			k := bounded(t, b)
			want := ""
			for i := range 16 {
				k.put(fmt.Sprintf("f%02d", i), "12345")
				want += fmt.Sprintf(" f%02d=12345", i)
			}
			for i := range 16 {
				if name == "bytes" {
					k.put(fmt.Sprintf("f%02d", i), "abcde")
				} else {
					k.in(fmt.Sprintf("f%02d", i), func(d vfs.Dir, name string) error { return d.Remove(t.Context(), name, vfs.If{}) })
				}
			}
			k.undo(vfs.Undo{Last: 16})
			k.shows(want[1:])
			k.put("x", "x")
			if page := k.history(); len(page.Entries) > 20 {
				t.Errorf("%d entries are kept", len(page.Entries))
			}
			if _, n := k.onShelf(); n > 100 {
				t.Errorf("%d bytes are kept", n)
			}
		})
	}
}

// TestNewestChangeStays: what was changed last can be undone, although older changes leave it little room.
func TestNewestChangeStays(t *testing.T) {
	k := bounded(t, history.Bounds{Changes: 20})
	for i := range 5 {
		k.put(fmt.Sprint("old", i), "x")
	}
	var steps []step.Step
	for i := range 19 {
		steps = append(steps, step.Step{Verb: step.Put, Path: fmt.Sprint("new", i), Data: []byte("x")})
	}
	k.change(steps...)
	k.undo(vfs.Undo{Last: 1})
	k.shows("old0=x old1=x old2=x old3=x old4=x")
}

// TestUndoNamesNothingOutside: of a change that reached out of a directory neither the preview nor the refusal names what is there.
func TestUndoNamesNothingOutside(t *testing.T) {
	k := bounded(t, history.Bounds{})
	for _, d := range []string{"in", "private"} {
		k.in(d, func(d vfs.Dir, name string) error { return closed(d.Mkdir(t.Context(), name)) })
	}
	put := func(path, text string) step.Step { return step.Step{Verb: step.Put, Path: path, Data: []byte(text)} }
	k.change(put("in/a", "x"), put("private/secret", "y"))
	k.change(put("in/a", "x2"), put("private/secret", "y2"))
	k.put("in/b", "b")
	k.in("in/b", func(d vfs.Dir, name string) error {
		to, err := vfs.WalkDir(t.Context(), k.root, "private")
		check.OK(t, err)
		defer to.Close()
		return d.Rename(t.Context(), name, to, "secret2", vfs.If{}, vfs.If{})
	})
	sub, err := vfs.WalkDir(t.Context(), k.root, "in")
	check.OK(t, err)
	defer sub.Close()
	page, err := vfs.History(t.Context(), sub, vfs.PastQuery{})
	check.OK(t, err)
	if s := fmt.Sprintf("%+v", page); strings.Contains(s, "private") || strings.Contains(s, "secret") {
		t.Errorf("history says %s", s)
	}
	for _, w := range []vfs.Undo{{Last: 1}, {Last: 3}, {Last: 4}, {SinceMs: 1}} {
		_, err = vfs.UndoIn(t.Context(), sub, w)
		check.Is(t, "undo", err, vfs.Denied)
		if strings.Contains(err.Error(), "private") || strings.Contains(err.Error(), "secret") {
			t.Errorf("undo says %v", err)
		}
		w.DryRun = true
		dry, err := vfs.UndoIn(t.Context(), sub, w)
		check.OK(t, err)
		if s := fmt.Sprintf("%+v", dry); strings.Contains(s, "private") || strings.Contains(s, "secret") {
			t.Errorf("a preview says %s", s)
		}
	}
}

// TestUncountedCopies: writes in place whose end is not yet known, and one change of many paths, copy no more than the history may keep.
func TestUncountedCopies(t *testing.T) {
	k := bounded(t, history.Bounds{Bytes: 1000})
	var open []vfs.File
	for i := range 40 {
		k.put(fmt.Sprint("f", i), strings.Repeat("x", 100))
		f, err := vfs.WalkFile(t.Context(), k.root, fmt.Sprint("f", i))
		check.OK(t, err)
		defer f.Close()
		open = append(open, f)
	}
	for _, f := range open {
		_, err := vfs.Append(t.Context(), f, []byte("y"), vfs.If{})
		check.OK(t, err)
	}
	if _, n := k.onShelf(); n > 2000 {
		t.Errorf("writes in place have %d bytes kept", n)
	}
	for _, f := range open {
		f.Close()
	}
	var steps []step.Step
	for i := range 40 {
		steps = append(steps, step.Step{Verb: step.Put, Path: fmt.Sprint("f", i), Data: []byte("z")})
	}
	most, stop, stopped := int64(0), make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			_, n := k.onShelf()
			most = max(most, n)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	k.change(steps...)
	close(stop)
	<-stopped
	if most > 2000 {
		t.Errorf("a change has %d bytes kept", most)
	}
}

func (k *kept) change(steps ...step.Step) {
	k.t.Helper()
	_, err := change.Do(k.t.Context(), k.root, steps, change.Options{})
	check.OK(k.t, err)
}
