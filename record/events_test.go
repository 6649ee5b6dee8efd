package record_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs/vfstest/check"
)

// TestEvents: who follows the record gets each entry once, when it is on disk, and waits for the next.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		l, err := record.Open(db, record.Options{})
		check.OK(t, err)
		defer func() { check.OK(t, l.Close()) }()
		_, next, _, err := l.Events(t.Context(), math.MaxUint64, 10)
		if check.OK(t, err); next != 1 {
			t.Fatalf("the end is %d", next)
		}
		got := make(chan []operator.Event)
		go func() {
			all, _, _, err := l.Events(t.Context(), next, 10)
			check.OK(t, err)
			got <- all
		}()
		synctest.Wait()
		select {
		case all := <-got:
			t.Fatalf("it does not wait: %+v", all)
		default:
		}
		for range 3 {
			check.OK(t, l.Write(record.Entry{Kind: record.Asked, Op: "replace"}))
		}
		if all := <-got; len(all) == 0 || all[0].Number != 1 {
			t.Errorf("got %+v", all)
		}
		all, next, missed, err := l.Events(t.Context(), 2, 1)
		if check.OK(t, err); len(all) != 1 || all[0].Number != 2 || next != 3 || missed != 0 {
			t.Errorf("got %+v, then %d, missed %d", all, next, missed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		all, next, _, err = l.Events(ctx, 4, 1)
		if check.OK(t, err); len(all) != 0 || next != 4 {
			t.Errorf("after the end of its time: %+v, then %d", all, next)
		}
		check.OK(t, db.Write(func(tx *database.Tx) error {
			_, err := tx.Exec("DELETE FROM record WHERE seq < 2")
			return err
		}))
		if _, _, missed, err = l.Events(t.Context(), 0, 1); missed != 2 {
			t.Errorf("missed %d, %v", missed, err)
		}
	})
}
