package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/state"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
	"capd/virtualfs"
)

// begin makes a journal in st, as another process would, and does not close it.
func begin(t *testing.T, st state.Dir) *journal {
	t.Helper()
	j, err := newJournal(t.Context(), st, nil, nil, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func journals(t *testing.T, st state.Dir) (names []string) {
	t.Helper()
	all, err := os.ReadDir(st.Journals())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// A journal of a process that ended is removed, however it ended. A journal of a process
// that lives is left alone.
func TestJournalsGo(t *testing.T) {
	st := state.Dir(t.TempDir())
	mine := begin(t, st)
	if got := journals(t, st); len(got) != 2 {
		t.Fatalf("with one journal there are %q", got)
	}
	for name, make := range map[string]func() error{
		"a directory without an owner": func() error {
			if err := os.MkdirAll(filepath.Join(st.Journals(), "x"), 0o700); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(st.Journals(), "x", "y"), []byte("secret"), 0o600)
		},
		"an owner without a directory": func() error {
			return os.WriteFile(filepath.Join(st.Journals(), "z"+ownerSuffix), nil, 0o600)
		},
		"one that was let go": func() error { return begin(t, st).release() },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		other := begin(t, st)
		if err := other.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := journals(t, st); len(got) != 2 {
			t.Errorf("after %s there are %q", name, got)
		}
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
	if got := journals(t, st); len(got) != 0 {
		t.Errorf("in the end there are %q", got)
	}
}

// cutShort begins a batch in the directory served, as another process would that dies in the middle of it: the directory d is
// made, and f is not removed yet. end ends its journal. It returns the path of that.
func cutShort(t *testing.T, st state.Dir, served string, end func(*journal) error) (path string) {
	t.Helper()
	j := begin(t, st)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the batch went to its end")
			}
		}()
		err := replaced(t, j, served, func(step string) {
			if strings.Contains(step, "remove") || strings.Contains(step, "mkdir") {
				panic("the process dies")
			}
		})
		t.Errorf("the batch ended with %v", err)
	}()
	check.OK(t, end(j))
	return j.path
}

// replaced writes f in the directory served, and then has a batch put d in its place.
func replaced(t *testing.T, j *journal, served string, step func(string)) error {
	t.Helper()
	check.OK(t, os.WriteFile(filepath.Join(served, "f"), []byte("before"), 0o600))
	store, err := physical.OpenAmbient(served, physical.Options{})
	check.OK(t, err)
	defer store.Close()
	n, err := store.Root().Lookup(t.Context(), "f")
	check.OK(t, err)
	defer n.Close()
	was, err := vfs.VersionOf(t.Context(), n.(vfs.File))
	check.OK(t, err)
	changes := []diff.Change{{Path: "f", Was: diff.State{Kind: vfs.FileKind, Version: was}}, {Path: "d", Is: diff.State{Kind: vfs.DirKind}}}
	_, err = batch.Run(t.Context(), j, store.Root(), changes, batch.Options{Name: `{"mounts":{"":"physical:` + served + `"},"path":""}`, Step: step})
	return err
}

// next starts another process on st, ends it, and returns what it logged.
func next(t *testing.T, st state.Dir) (logged string) {
	t.Helper()
	s := stores{st: st, private: func() []private { return nil }, directories: &directories{}}
	j, err := newJournal(t.Context(), st, map[string]virtualfs.Opener{"physical": s.physical}, nil, func(format string, args ...any) {
		logged += fmt.Sprintf(format, args...) + "\n"
	})
	check.OK(t, err)
	check.OK(t, j.Close())
	return logged
}

// The next process undoes what was begun in a directory, which it finds by its URL. It does so, too, if the one before it ended
// normally and could not undo it.
func TestSettle(t *testing.T) {
	for name, end := range map[string]func(*journal) error{"killed": (*journal).release, "stopped": (*journal).Close} {
		t.Run(name, func(t *testing.T) {
			st, served := state.Dir(t.TempDir()), t.TempDir()
			cutShort(t, st, served, end)
			next(t, st)
			if b, err := os.ReadFile(filepath.Join(served, "f")); err != nil || string(b) != "before" {
				t.Errorf("f is %q, %v", b, err)
			}
			if _, err := os.Stat(filepath.Join(served, "d")); !os.IsNotExist(err) {
				t.Errorf("d is there: %v", err)
			}
			if got := journals(t, st); len(got) != 0 {
				t.Errorf("there are still %q", got)
			}
		})
	}
}

// What could not be undone, since somebody else had changed it, keeps its copies until the operator removes them. Each start names
// them.
func TestSettleKeeps(t *testing.T) {
	for name, fails := range map[string]func(t *testing.T, st state.Dir, served string) (path string){
		"killed": func(t *testing.T, st state.Dir, served string) string {
			path := cutShort(t, st, served, (*journal).release)
			check.OK(t, os.WriteFile(filepath.Join(served, "d", "foreign"), nil, 0o600))
			return path
		},
		"stopped": func(t *testing.T, st state.Dir, served string) string {
			j := begin(t, st)
			err := replaced(t, j, served, func(step string) {
				if strings.HasPrefix(step, "mkdir") { // the removal of f fails then, and that of d
					check.OK(t, os.WriteFile(filepath.Join(served, "d", "foreign"), nil, 0o600))
					check.OK(t, os.WriteFile(filepath.Join(served, "f"), []byte("another's"), 0o600))
				}
			})
			if _, is := errors.AsType[*diff.Conflicts](err); !is {
				t.Errorf("the batch ended with %v", err)
			}
			check.OK(t, j.Close())
			return j.path
		},
	} {
		t.Run(name, func(t *testing.T) {
			st, served := state.Dir(t.TempDir()), t.TempDir()
			path := fails(t, st, served)
			for i := range 3 {
				if logged := next(t, st); strings.Count(logged, path) != 1 || strings.Contains(logged, "nil") {
					t.Errorf("start %d logged %q, which is to name %s once", i+1, logged, path)
				}
				if kept, err := filepath.Glob(filepath.Join(path, "*.data")); len(kept) != 1 {
					t.Fatalf("after start %d there are %d copies, %v", i+1, len(kept), err)
				}
			}
			check.OK(t, os.RemoveAll(path))
			if logged := next(t, st); logged != "" {
				t.Errorf("when the copies were removed a start logged %q", logged)
			}
			if got := journals(t, st); len(got) != 0 {
				t.Errorf("in the end there are %q", got)
			}
		})
	}
}
