package approval_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"capd/approval"
	"capd/database"
	"capd/operator"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// TestAlwaysFollows: when one request is answered with always, the calls go on whose changes that approves too. Nobody is asked about
// them any more.
func TestAlwaysFollows(t *testing.T) {
	at := func(change func(*approval.Asked)) approval.Asked {
		a := put
		change(&a)
		return a
	}
	content := at(func(a *approval.Asked) { a.Digest[0]++ })
	share := at(func(a *approval.Asked) { a.Grant = 3 })
	hook := at(func(a *approval.Asked) { a.Path = "project/.git/hooks/x" })
	remove := at(func(a *approval.Asked) { a.Operation = "remove" })
	other := at(func(a *approval.Asked) { a.Root = 7 })
	for name, c := range map[string]struct {
		pattern string
		goes    []approval.Asked
		waits   []approval.Asked
	}{
		"that path": {"", []approval.Asked{content, share}, []approval.Asked{hook, remove, other}},
		"a pattern": {"project/.git/**", []approval.Asked{content, share, hook}, []approval.Asked{remove, other}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := desk(t)
				ctx, cancel := context.WithCancel(t.Context())
				begin := func(all ...approval.Asked) (calls []*asking) {
					for _, a := range all {
						calls = append(calls, ask(ctx, d, a))
						synctest.Wait()
					}
					return calls
				}
				first := begin(put)[0]
				id := pending(t, d)[0].ID
				goes, waits := begin(c.goes...), begin(c.waits...)
				_, err := d.Decide(id, operator.Verdict{Answer: operator.Always, Pattern: c.pattern}, "console")
				check.OK(t, err)
				check.OK(t, first.ended())
				for i, call := range goes {
					if call.waits() {
						t.Errorf("%+v waits", c.goes[i])
					} else {
						check.OK(t, call.ended())
					}
				}
				for i, call := range waits {
					if !call.waits() {
						t.Errorf("%+v does not wait: %v", c.waits[i], call.err)
					}
				}
				if left := pending(t, d); len(left) != len(c.waits) {
					t.Errorf("listed %+v", left)
				}
				all, err := d.List(t.Context(), true, operator.Ask{})
				check.OK(t, err)
				for _, a := range all {
					if a.Answer != "" && (a.Answer != operator.Always || a.By != "console") {
						t.Errorf("listed %+v", a)
					}
				}
				if n := len(standing(t, d)); n != 1 {
					t.Errorf("%d approvals hold", n)
				}
				cancel()
				for _, call := range append(goes, waits...) {
					<-call.done
				}
			})
		})
	}
}

func standing(t *testing.T, d *approval.Desk) []operator.Standing {
	t.Helper()
	all, err := d.Standing(t.Context())
	check.OK(t, err)
	return all
}

// TestAlwaysMeetsNew: no call waits for a decision that was made, whenever it begins to wait.
func TestAlwaysMeetsNew(t *testing.T) {
	for round := range 20 {
		synctest.Test(t, func(t *testing.T) {
			d := desk(t)
			first := ask(t.Context(), d, put)
			synctest.Wait()
			id := pending(t, d)[0].ID
			calls := []*asking{first}
			for i := range 1 + round%7 {
				a := put
				a.Path = fmt.Sprint("project/.git/", i)
				calls = append(calls, ask(t.Context(), d, a))
			}
			_, err := d.Decide(id, operator.Verdict{Answer: operator.Always, Pattern: "project/.git/**"}, "console")
			check.OK(t, err)
			for _, c := range calls {
				check.OK(t, c.ended())
			}
			if left := pending(t, d); len(left) > 0 {
				t.Errorf("listed %+v", left)
			}
		})
	}
}

// TestAlwaysAfterKill: a host was killed when an approval was on disk, and not yet what follows from it for others that waited. They do
// not wait at the next start.
func TestAlwaysAfterKill(t *testing.T) {
	at := state.Dir(t.TempDir())
	other := put
	other.Path = "project/.git/hooks/x"
	run(t, at, func(t *testing.T, d *approval.Desk) {
		first := ask(t.Context(), d, put)
		synctest.Wait()
		id := pending(t, d)[0].ID
		second := ask(t.Context(), d, other)
		synctest.Wait()
		_, err := d.Decide(id, operator.Verdict{Answer: operator.Always, Pattern: "project/.git/**"}, "console")
		check.OK(t, err)
		check.OK(t, first.ended())
		check.OK(t, second.ended())
	})
	db, err := database.Open(at, database.Options{})
	check.OK(t, err)
	check.OK(t, db.Write(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE asks SET decision = NULL, answer = NULL, by = NULL, decided = NULL WHERE path = ?", []byte(other.Path))
		return err
	}))
	check.OK(t, db.Close())
	run(t, at, func(t *testing.T, d *approval.Desk) {
		if left := pending(t, d); len(left) > 0 {
			t.Errorf("listed %+v", left)
		}
		all, err := d.List(t.Context(), true, operator.Ask{})
		check.OK(t, err)
		if len(all) != 2 || all[0].Answer != operator.Always || all[1].Answer != operator.Always || all[0].By != all[1].By {
			t.Errorf("listed %+v", all)
		}
	})
}
