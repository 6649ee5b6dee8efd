package authority_test

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/authority"
	"capd/backend/memory"
	"capd/backend/physical"
	"capd/database"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// recorded is a host that keeps a record.
type recorded struct {
	*authority.Host
	db   *database.DB
	log  *record.Log
	root vfs.Dir // of the tree, as the host has it
}

func newRecorded(t testing.TB, root vfs.Dir) *recorded {
	t.Helper()
	r := &recorded{db: database.Memory(), root: root}
	t.Cleanup(func() { r.db.Close() })
	r.open(t)
	return r
}

// open starts r, again if it was started before, and settles what is open.
func (r *recorded) open(t testing.TB) {
	t.Helper()
	log, err := record.Open(r.db, record.Options{Logf: t.Logf})
	ok(t, err)
	r.log = log
	r.Host = authority.Open(r.root, authority.Options{DB: r.db, Record: r.log})
	ok(t, r.Settle(t.Context()))
	t.Cleanup(func() { ok(t, log.Close()) })
}

// restored returns the tree as a guest has it.
func (r *recorded) restored(t testing.TB, secret []byte) vfs.Dir {
	t.Helper()
	n, _, err := r.Restore(t.Context(), secret)
	ok(t, err)
	t.Cleanup(func() { n.Close() })
	return n.(vfs.Dir)
}

// entries returns a line for each entry of a change, when all are written.
func (r *recorded) entries(t testing.TB, after int64) (lines []string) {
	t.Helper()
	kinds := []record.Kind{record.Intended, record.Ended, record.Settled}
	open := 1
	check.Eventually(t, "every change has an outcome", func() bool {
		lines, open = nil, 0
		for e, err := range record.Entries(t.Context(), r.db, record.Query{From: after, Kinds: kinds}) {
			ok(t, err)
			if e.Kind == record.Intended {
				open++
				lines = append(lines, fmt.Sprint(e.Grants[0].Name, " ", e.Op, " ", e.Path, " ", e.To))
				continue
			}
			open--
			lines = append(lines, fmt.Sprint(e.Result, " ", e.Code, " ", e.Bytes, " ", e.Nodes))
		}
		return open == 0
	})
	return lines
}

var small = vfstest.Tree{"f": {Data: "old"}, "d/g": {Data: "below"}, "hollow": {Dir: true}}

// changesOf are all changes that a guest makes, each on a tree of its own, and what the record has of them.
var changesOf = map[string]struct {
	do   func(t testing.TB, d vfs.Dir) error
	want []string
}{
	"create":  {func(t testing.TB, d vfs.Dir) error { _, err := d.Create(t.Context(), "new"); return err }, []string{"agent create new ", "done  0 1"}},
	"mkdir":   {func(t testing.TB, d vfs.Dir) error { _, err := d.Mkdir(t.Context(), "new"); return err }, []string{"agent mkdir new ", "done  0 1"}},
	"replace": {func(t testing.TB, d vfs.Dir) error { return check.Put(t.Context(), d, "f", "newer") }, []string{"agent replace f ", "done  2 0"}},
	"replace through the file": {func(t testing.TB, d vfs.Dir) error {
		_, err := check.FileAt(t, d, "f").Replace(t.Context(), strings.NewReader(""), vfs.If{})
		return err
	}, []string{"agent replace f ", "done  -3 0"}},
	"remove": {func(t testing.TB, d vfs.Dir) error { return d.Remove(t.Context(), "hollow", vfs.If{}) }, []string{"agent remove hollow ", "done  0 -1"}},
	"rename": {func(t testing.TB, d vfs.Dir) error {
		return d.Rename(t.Context(), "f", check.DirAt(t, d, "d"), "h", vfs.If{}, vfs.If{})
	}, []string{"agent rename f d/h", "done  0 0"}},
	"write": {func(t testing.TB, d vfs.Dir) error {
		_, err := check.FileAt(t, d, "f").WriteAt(t.Context(), []byte("x"), 3, vfs.If{})
		return err
	}, []string{"agent write f ", "done  1 0"}},
	"truncate": {func(t testing.TB, d vfs.Dir) error { return check.FileAt(t, d, "f").Truncate(t.Context(), 1, vfs.If{}) }, []string{"agent truncate f ", "done  -2 0"}},
	"append": {func(t testing.TB, d vfs.Dir) error {
		_, err := vfs.Append(t.Context(), check.FileAt(t, d, "f"), []byte("xy"), vfs.If{})
		return err
	}, []string{"agent append f ", "done  2 0"}},
	"what is refused at once": {func(t testing.TB, d vfs.Dir) error {
		_, err := d.Mkdir(t.Context(), "f")
		return expect(err, vfs.Exists)
	}, nil},
	"another version": {func(t testing.TB, d vfs.Dir) error {
		_, err := d.Replace(t.Context(), "f", strings.NewReader("x"), vfs.If{Absent: true})
		return expect(err, vfs.Conflict)
	}, nil},
	"a reader that fails": {func(t testing.TB, d vfs.Dir) error {
		_, err := d.Replace(t.Context(), "f", io.MultiReader(strings.NewReader("x"), failing{}), vfs.If{})
		return expect(err, vfs.Quota)
	}, nil},
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, vfs.Quota }

// expect returns nil for an error with that code.
func expect(err error, code vfs.Code) error {
	if vfs.CodeOf(err) == code {
		return nil
	}
	return fmt.Errorf("%w, want %s", err, string(code))
}

var recordedStores = map[string]func(testing.TB, vfstest.Tree) vfs.Dir{
	"memory": func(t testing.TB, tree vfstest.Tree) vfs.Dir { _, d := check.Store(t, tree); return d },
	"physical": func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		s, err := physical.OpenAmbient(t.TempDir(), physical.Options{})
		ok(t, err)
		t.Cleanup(func() { s.Close() })
		vfstest.Fill(t, s.Root(), tree, nil, nil)
		return s.Root()
	},
}

// TestChangesAreRecorded makes every change.
func TestChangesAreRecorded(t *testing.T) {
	for store, make := range recordedStores {
		for what, c := range changesOf {
			t.Run(store+"/"+what, func(t *testing.T) {
				r := newRecorded(t, make(t, small))
				authority.Quieten(r.Host, time.Millisecond)
				_, secret := grant(t, r.Host, "agent", "", false)
				d := r.restored(t, secret)
				check.Read(t, d, "f") // reads leave nothing
				ok(t, c.do(t, d))
				if got := r.entries(t, 0); !slices.Equal(got, c.want) {
					t.Errorf("recorded %q, want %q", got, c.want)
				}
			})
		}
	}
}

// Without a record nothing changes, and reads and revokes go on.
func TestNoRecordNoChange(t *testing.T) {
	for store, make := range recordedStores {
		for what, c := range changesOf {
			t.Run(store+"/"+what, func(t *testing.T) {
				r := newRecorded(t, make(t, small))
				_, secret := grant(t, r.Host, "agent", "", false)
				d := r.restored(t, secret)
				before := check.Picture(t, r.root)
				silent := database.Memory() // as a disk that fails: nothing is written any more
				log, err := record.Open(silent, record.Options{})
				ok(t, err)
				ok(t, silent.Close())
				authority.SetRecord(r.Host, log)
				if err := c.do(t, d); (err == nil) != (c.want == nil) {
					t.Errorf("without a record: %v", err)
				}
				if now := check.Picture(t, r.root); now != before {
					t.Errorf("there was\n%s\nand now there is\n%s", before, now)
				}
				if got := check.Read(t, d, "d/g"); got != "below" {
					t.Errorf("a read: %q", got)
				}
				_, err = r.Revoke("agent")
				ok(t, err)
				authority.SetRecord(r.Host, r.log)
			})
		}
	}
}

// A change through a share says what it was shared from.
func TestLineage(t *testing.T) {
	r := newRecorded(t, memory.New(memory.Limits{}).Root())
	_, secret := grant(t, r.Host, "agent", "", false)
	d := r.restored(t, secret)
	for range 2 {
		next, _, err := r.Share(t.Context(), d)
		ok(t, err)
		d = r.restored(t, next)
	}
	ok(t, check.Put(t.Context(), d, "f", "shared"))
	r.entries(t, 0)
	for e, err := range record.Entries(t.Context(), r.db, record.Query{Kinds: []record.Kind{record.Intended}}) {
		ok(t, err)
		if want := []record.Holder{{ID: "g3", Name: "agent/1/1"}, {ID: "g2", Name: "agent/1"}, {ID: "g1", Name: "agent"}}; !slices.Equal(e.Grants, want) {
			t.Errorf("by %v, want %v", e.Grants, want)
		}
	}
}

// The recorded tree of a guest is held to the contract of every store.
func TestRecordedConforms(t *testing.T) {
	vfstest.Run(t, vfstest.Store{New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		_, d := check.Store(t, tree)
		r := newRecorded(t, d)
		_, secret := grant(t, r.Host, "agent", "", false)
		return r.restored(t, secret)
	}})
}

// What is given and taken back is recorded in the transaction that does it.
func TestGrantsAreRecorded(t *testing.T) {
	r := newRecorded(t, memory.New(memory.Limits{}).Root())
	_, secret := grant(t, r.Host, "agent", "", false)
	d := r.restored(t, secret)
	_, own, err := r.Share(t.Context(), d)
	ok(t, err)
	_, _, err = r.Share(t.Context(), d)
	ok(t, err)
	ok(t, own.Revoke())
	_, err = r.Revoke("agent")
	ok(t, err)
	_, err = r.Revoke("agent") // changes nothing more
	ok(t, err)
	var got []string
	for e, err := range record.Entries(t.Context(), r.db, record.Query{From: 1}) {
		ok(t, err)
		got = append(got, fmt.Sprint(e.Kind, " ", e.Grants[0].Name, " ", e.Subject, " ", len(e.Grants)))
	}
	want := []string{"granted agent agent-run:agent 1", "shared agent/1 agent-run:agent 2", "shared agent/2 agent-run:agent 2",
		"revoked agent/1 agent-run:agent 1", "revoked agent agent-run:agent 1", "revoked agent/2 agent-run:agent 1"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
