package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// The tree is that of RFC 6962, as tlog computes it.
func TestFrontierIsTlogs(t *testing.T) {
	var f frontier
	var stored []tlog.Hash
	read := tlog.HashReaderFunc(func(at []int64) (all []tlog.Hash, err error) {
		for _, i := range at {
			all = append(all, stored[i])
		}
		return all, nil
	})
	for n := range int64(1000) {
		body := fmt.Appendf(nil, "entry %d", n)
		more, err := tlog.StoredHashes(n, body, read)
		check.OK(t, err)
		stored = append(stored, more...)
		f.add(0, tlog.RecordHash(body))
		want, err := tlog.TreeHash(n+1, read)
		check.OK(t, err)
		if f.root() != want || f.size != n+1 {
			t.Fatalf("%d entries: %v, want %v", f.size, f.root(), want)
		}
	}
}

// A start goes on with the tree where it ended, whatever is in blocks, and a transaction that is undone leaves no trace.
func TestTreeGoesOn(t *testing.T) {
	d := state.Dir(t.TempDir())
	var want frontier
	no := errors.New("no")
	many := 1 << 10
	if os.Getenv("CAPD_CI") != "" {
		many = 1 << superLevel
	}
	for _, n := range []int{1, 253, 1, 1, 255, many, 3, 300} {
		db, l := opened(t, d)
		fill(t, db, l, n)
		if err := db.Write(func(tx *database.Tx) error {
			for range 300 {
				check.OK(t, l.Append(tx, Entry{Kind: Intended}))
			}
			return no
		}); !errors.Is(err, no) {
			t.Fatal(err)
		}
		want = l.tree.clone()
		if open := len(l.open); int64(open) != want.size-started(t, db) {
			t.Errorf("%d intents are open of %d entries", open, want.size)
		}
		closed(t, db, l)
	}
	if r := verified(t, d, ""); len(r.Problems) > 0 || r.Entries != want.size {
		t.Fatalf("%+v, want %d", r, want.size)
	}
}

// started counts the entries that say that a host began.
func started(t *testing.T, db *database.DB) (n int64) {
	t.Helper()
	for _, err := range Entries(context.Background(), db, Query{Kinds: []Kind{Started}}) {
		check.OK(t, err)
		n++
	}
	return n
}
