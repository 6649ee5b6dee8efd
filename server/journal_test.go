package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/state"
	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/diff"
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

// The next process undoes what was begun in a directory, which it finds by its URL.
func TestSettle(t *testing.T) {
	st := state.Dir(t.TempDir())
	served := t.TempDir()
	if err := os.WriteFile(filepath.Join(served, "f"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := physical.OpenAmbient(served, physical.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j := begin(t, st)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the batch went to its end")
			}
		}()
		n, err := store.Root().Lookup(t.Context(), "f")
		if err != nil {
			t.Fatal(err)
		}
		was, err := vfs.VersionOf(t.Context(), n.(vfs.File))
		if err != nil {
			t.Fatal(err)
		}
		changes := []diff.Change{{Path: "f", Was: diff.State{Kind: vfs.FileKind, Version: was}}, {Path: "d", Is: diff.State{Kind: vfs.DirKind}}}
		_, err = batch.Run(t.Context(), j, store.Root(), changes, batch.Options{
			Name: `{"mounts":{"":"physical:` + served + `"},"path":""}`,
			Step: func(step string) {
				if strings.Contains(step, "remove") || strings.Contains(step, "mkdir") {
					panic("the process dies")
				}
			},
		})
		t.Errorf("the batch ended with %v", err)
	}()
	store.Close()
	if err := j.release(); err != nil {
		t.Fatal(err)
	}
	s := stores{st: st, directories: &directories{}}
	next, err := newJournal(t.Context(), st, map[string]virtualfs.Opener{"physical": s.physical}, nil, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if b, err := os.ReadFile(filepath.Join(served, "f")); err != nil || string(b) != "before" {
		t.Errorf("f is %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(served, "d")); !os.IsNotExist(err) {
		t.Errorf("d is there: %v", err)
	}
}
