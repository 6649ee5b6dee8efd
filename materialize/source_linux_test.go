package materialize_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/faultfs"
)

// Whatever fails in the source, afterwards the whole copy is there or nothing.
func TestEveryFault(t *testing.T) {
	planned := vfs.Errorf(vfs.Busy, "planned")
	base := t.TempDir()
	b, s := newBase(t, base), newStore(t, sample)
	for _, stage := range []faultfs.Stage{faultfs.Before, faultfs.After} {
		failed := 0
		for n := 1; n < 80; n++ {
			plan := new(faultfs.Plan)
			plan.Fail(faultfs.Any, stage, n, planned)
			tr, err := b.New(t.Context(), faultfs.New(s.Root(), plan), materialize.Options{})
			if err != nil {
				failed++
				is(t, fmt.Sprint("fault ", n), err, vfs.Busy)
			} else {
				if got := readHost(t, tr.Path()); fmt.Sprint(got) != fmt.Sprint(sample) {
					t.Errorf("fault %d: the directory holds %v", n, got)
				}
				ok(t, tr.Close())
			}
			if got := readHost(t, base); len(got) > 0 {
				t.Fatalf("fault %d: there is %v", n, got)
			}
		}
		if failed < 20 || failed > 70 {
			t.Errorf("%d of 79 faults did something", failed)
		}
	}
}

// An entry that cannot be read, or is gone, is left out.
func TestEntryFaults(t *testing.T) {
	for code, skips := range map[vfs.Code]bool{
		vfs.NotFound: true, vfs.Stale: true, vfs.NotRegular: true, vfs.CrossDevice: true, vfs.Denied: true,
		vfs.Internal: false, vfs.Revoked: false, vfs.Corrupt: false, vfs.Quota: false,
	} {
		for _, path := range []string{"f", "d", "l"} {
			plan := new(faultfs.Plan)
			s := newStore(t, tree{path: map[string]string{"f": "file:f", "d": "dir", "l": "link:x"}[path]})
			plan.Fail(faultfs.Lookup, faultfs.Before, 1, code)
			tr, err := newBase(t, t.TempDir()).New(t.Context(), faultfs.New(s.Root(), plan), materialize.Options{})
			if !skips {
				is(t, path, err, code)
				continue
			}
			ok(t, err)
			skipped(t, tr.LeftOut(), path)
			ok(t, tr.Close())
		}
	}
}

// What a directory of the host has besides files, directories and links is left out. So
// is a file that this user may not read.
func TestHostSource(t *testing.T) {
	dir := t.TempDir()
	want := []string{"fifo"}
	ok(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "f"), []byte("f"), 0o644))
	ok(t, os.WriteFile(filepath.Join(dir, "unreadable"), []byte("x"), 0))
	ok(t, os.Symlink("f", filepath.Join(dir, "l")))
	ok(t, os.Symlink("/", filepath.Join(dir, "root")))
	want = append(want, "root")
	if os.Geteuid() != 0 {
		want = append(want, "unreadable")
	}
	s, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	defer s.Close()
	tr, err := newBase(t, t.TempDir()).New(t.Context(), s.ReadOnlyRoot(), materialize.Options{})
	ok(t, err)
	defer tr.Close()
	skipped(t, tr.LeftOut(), want...)
	if got := readHost(t, tr.Path()); got["f"] != "file:f" || got["l"] != "link:f" {
		t.Errorf("the directory holds %v", got)
	}
}

// lying is a Dir whose listing is arbitrary.
type lying struct {
	vfs.Dir
	names []string
}

func (l lying) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for _, name := range l.names {
			if !yield(vfs.Entry{Name: name, Kind: vfs.FileKind}, nil) {
				return
			}
		}
	}
}

func (l lying) Lookup(ctx context.Context, _ string) (vfs.Node, error) { return l.Dir.Lookup(ctx, "a") }

// A Dir that somebody else serves may list any names. Only names in the tree are made.
func TestLyingSource(t *testing.T) {
	names := []string{"", ".", "..", "../x", "/x", "a/b", "a\x00", "good", "good"}
	base := t.TempDir()
	tr, err := newBase(t, base).New(t.Context(), lying{newStore(t, sample).Root(), names}, materialize.Options{})
	ok(t, err)
	defer tr.Close()
	if got := len(tr.LeftOut()); got != 8 {
		t.Errorf("%d are left out, want 8: %v", got, tr.LeftOut())
	}
	if got := readHost(t, tr.Path()); len(got) != 1 || got["good"] != "file:old" {
		t.Errorf("the directory holds %v", got)
	}
	// There is no room for an endless listing either.
	endless := make([]string, 1000)
	for i := range endless {
		endless[i] = ".."
	}
	_, err = newBase(t, t.TempDir()).New(t.Context(), lying{newStore(t, sample).Root(), endless}, materialize.Options{Bounds: materialize.Bounds{Entries: 100}})
	is(t, "a list that is too long", err, vfs.Limit)
}
