package record

import (
	"fmt"
	"slices"
	"testing"

	"capd/database"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func read(t *testing.T, db *database.DB, q Query) (all []Numbered) {
	t.Helper()
	for e, err := range Entries(t.Context(), db, q) {
		check.OK(t, err)
		all = append(all, e)
	}
	return all
}

// An intent that was waited for is there after the host was killed, and the next start asks how it ended.
func TestUnsettled(t *testing.T) {
	d := state.Dir(t.TempDir())
	db, l := opened(t, d)
	holders := []Holder{{"g17", "agent/2"}, {"g3", "agent"}}
	var intents []*Intent
	for i := range 3 {
		n := l.Intend(Entry{Op: "replace", Path: Path(fmt.Sprintf("\xff%d", i)), Grants: holders, Version: "ab", Size: 7, Bytes: 9})
		check.OK(t, n.Wait())
		intents = append(intents, n)
	}
	intents[0].End(Outcome{Bytes: 5, Nodes: 1})
	intents[2].End(Outcome{Err: vfs.Errorf(vfs.Quota, "no room")})
	_, err := l.Checkpoint(false)
	check.OK(t, err)
	check.OK(t, db.Close()) // without Close of the log

	db, l = opened(t, d)
	open := l.Unsettled()
	if len(open) != 1 || open[0].Number != intents[1].ID() || open[0].Path != "\xff1" || !slices.Equal(open[0].Grants, holders) {
		t.Fatalf("unsettled: %+v", open)
	}
	check.OK(t, l.Settle(open[0], NotDone, nil))
	closed(t, db, l)
	db, l = opened(t, d)
	if open := l.Unsettled(); len(open) != 0 {
		t.Errorf("unsettled once more: %+v", open)
	}
	for _, e := range read(t, db, Query{Kinds: []Kind{Ended, Settled}}) {
		switch {
		case e.Of == intents[0].ID() && e.Result == Done && e.Bytes == 5 && e.Nodes == 1:
		case e.Of == intents[2].ID() && e.Result == Failed && e.Code == vfs.Quota && e.Said == "quota: no room":
		case e.Of == intents[1].ID() && e.Result == NotDone && e.Kind == Settled:
		default:
			t.Errorf("%+v", e)
		}
		if e.Grants[0] != holders[0] {
			t.Errorf("%+v is of nobody", e)
		}
	}
	closed(t, db, l)
	if r := verified(t, d, ""); len(r.Problems) > 0 || r.Checkpoints == 0 {
		t.Errorf("%+v", r)
	}
}

// Once the host has ended, nothing can be intended.
func TestIntendFails(t *testing.T) {
	db, l := opened(t, state.Dir(t.TempDir()))
	closed(t, db, l)
	i := l.Intend(Entry{Op: "mkdir", Path: "d"})
	check.Is(t, "an intent", i.Wait(), vfs.Stale)
	check.Is(t, "the same again", i.Wait(), vfs.Stale)
}

func TestQuery(t *testing.T) {
	db := database.Memory()
	defer db.Close()
	l, err := Open(db, Options{})
	check.OK(t, err)
	for _, e := range []Entry{
		{Kind: Intended, Path: "project/a", Grants: []Holder{{"g1", "agent"}}},
		{Kind: Intended, Path: "project/ab", Grants: []Holder{{"g2", "agent/1"}, {"g1", "agent"}}},
		{Kind: Intended, Op: "rename", Path: "tmp/x", To: "project/a/b", Grants: []Holder{{"g3", "other"}}},
		{Kind: Ended, Of: 1, Result: Done, Grants: []Holder{{"g1", "agent"}}},
	} {
		check.OK(t, l.Write(e))
	}
	for _, c := range []struct {
		q    Query
		want []int64
	}{
		{Query{}, []int64{0, 1, 2, 3, 4}},
		{Query{From: 3}, []int64{3, 4}},
		{Query{Guest: "agent"}, []int64{1, 2, 4}},
		{Query{Guest: "g2"}, []int64{2}},
		{Query{Path: "project"}, []int64{1, 2, 3, 4}},
		{Query{Path: "project/a"}, []int64{1, 3, 4}},
		{Query{Kinds: []Kind{Started, Ended}}, []int64{0, 4}},
		{Query{Since: 1 << 60}, nil},
	} {
		var got []int64
		for _, e := range read(t, db, c.q) {
			got = append(got, e.Number)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.q, got, c.want)
		}
	}
	check.OK(t, l.Close())
}
