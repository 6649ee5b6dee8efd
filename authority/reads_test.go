package authority_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"capd/authority"
	"capd/database"
	"capd/operator"
	"capd/policy"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// readBy returns a line for each directory and each read that was recorded, by name.
func readBy(t testing.TB, db *database.DB) (lines []string) {
	t.Helper()
	for e, err := range record.Entries(context.Background(), db, record.Query{Kinds: []record.Kind{record.Counted, record.Read}}) {
		ok(t, err)
		if e.Kind == record.Read {
			lines = append(lines, fmt.Sprintf("%s %s %q", e.Grants[0].Name, e.Op, e.Path))
		}
		for _, d := range e.Dirs {
			lines = append(lines, fmt.Sprintf("%s %q %d %d", e.Grants[0].Name, d.Path, d.Reads, d.Lists))
		}
	}
	slices.Sort(lines)
	return lines
}

// Reads are counted by grant and directory, and written once a minute and at the end.
func TestReadsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, d := check.Store(t, vfstest.Tree{"f": {Data: "old"}, "d/g": {Data: "below"}, "d/h": {Data: "more"}, "d/e/i": {Data: "deep"}})
		r := newRecorded(t, d)
		_, secret := grant(t, r.Host, "agent", "", false)
		guest := r.restored(t, secret)
		f := check.FileAt(t, guest, "f")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 100 {
					_, err := f.ReadAt(t.Context(), make([]byte, 1), 0)
					ok(t, err)
				}
			})
		}
		all.Wait()
		shared, _, err := r.Share(t.Context(), guest)
		ok(t, err)
		other := r.restored(t, shared)
		check.Read(t, other, "d/g")
		check.Read(t, other, "d/h")
		for _, err := range check.DirAt(t, other, "d").List(t.Context()) {
			ok(t, err)
		}
		_, err = vfs.Walk(t.Context(), guest, "none")
		is(t, "a walk", err, vfs.NotFound)
		time.Sleep(2 * time.Minute)
		want := []string{`agent "" 400 0`, `agent/1 "d" 2 1`}
		if got := readBy(t, r.db); !slices.Equal(got, want) {
			t.Errorf("counted %q, want %q", got, want)
		}
		time.Sleep(10 * time.Minute) // the counts were dropped meanwhile
		_, err = f.ReadAt(t.Context(), make([]byte, 1), 0)
		ok(t, err)
		_, err = f.WriteAt(t.Context(), []byte("x"), 0, vfs.If{}) // the host reads the file then, which does not count
		ok(t, err)
		ok(t, f.Sync(t.Context()))
		time.Sleep(time.Minute)
		ok(t, r.Close())
		if got := readBy(t, r.db); !slices.Contains(got, `agent "" 1 0`) || len(got) != 3 {
			t.Errorf("counted %q, want one more", got)
		}
	})
}

// Where a rule says so, and in secret roots, each read has an entry.
func TestEachReadIsRecorded(t *testing.T) {
	_, tree := check.Store(t, vfstest.Tree{"f": {Data: "old"}, "d/g.key": {Data: "key"}, "d/h": {Data: "plain"}, "vault/s": {Data: "secret"}})
	db := database.Memory()
	defer db.Close()
	log, err := record.Open(db, record.Options{})
	ok(t, err)
	defer log.Close()
	all := []operator.Root{{ID: "vault", Kind: operator.Secret, Path: "vault"}, {ID: "d", Kind: operator.Workspace, Path: "d"}}
	roots, err := policy.NewRoots(all)
	ok(t, err)
	var book policy.Book
	ok(t, book.Set(policy.Rules{Rules: []operator.Rule{{Effect: operator.RuleAllow, Patterns: []string{"**/*.key"}, Audit: operator.AuditReads}}}, all))
	h := authority.Open(tree, authority.Options{DB: db, Record: log, Roots: roots, Policy: &book})
	r := &recorded{Host: h, db: db, log: log, root: tree}
	for _, root := range []string{"vault", "d"} {
		_, secret, err := h.GrantOn(t.Context(), "person:"+root, "", operator.Terms{Root: root, BeyondDefault: true})
		ok(t, err)
		d := r.restored(t, secret[:])
		for e, err := range d.List(t.Context()) {
			ok(t, err)
			_, err = check.FileAt(t, d, e.Name).ReadAt(t.Context(), make([]byte, 1), 0)
			ok(t, err)
			is(t, "a guess", d.Remove(t.Context(), e.Name, vfs.If{Is: vfs.Version{1}}), vfs.Conflict)
		}
	}
	ok(t, h.Close())
	ok(t, db.Write(func(*database.Tx) error { return nil })) // what was queued is written with it
	want := []string{`person:d "d" 1 1`, `person:d read "d/g.key"`, `person:d read "d/g.key"`, `person:vault list "vault"`, `person:vault read "vault/s"`, `person:vault read "vault/s"`}
	if got := readBy(t, db); !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
