package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/approval"
	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// numbers are the ids of a root grant and of what was shared from it.
var numbers = map[string]int64{
	"agent": 1, "agent/1": 2, "agent/2": 3, "agent/1/1": 4, "agent/3": 5, "agent/4": 6, "agent/5": 7, "agent/1/2": 8, "agent/1/1/1/1/1/1": 9,
}

// askedBy is the nth change of one of numbers.
func askedBy(guest string, n int) approval.Asked {
	a := put
	a.Grant, a.Guest, a.Path = numbers[guest], guest, fmt.Sprintf("project/.git/%s/%d", guest, n)
	a.Grants = []record.Holder{{ID: fmt.Sprint("g", a.Grant), Name: guest}}
	return a
}

// gaveUp asks for changes one by one, and gives each up. It returns the error of the last one that could not be asked about.
func gaveUp(t *testing.T, d *approval.Desk, guest string, n int) (refused error) {
	t.Helper()
	for i := range n {
		ctx, cancel := context.WithCancel(t.Context())
		c := ask(ctx, d, askedBy(guest, i))
		if !c.waits() {
			refused = c.err
		}
		cancel()
		<-c.done
		time.Sleep(time.Millisecond)
	}
	return refused
}

// countBy returns how many requests of each wait.
func countBy(t *testing.T, d *approval.Desk) string {
	t.Helper()
	n := map[string]int{}
	for _, a := range pending(t, d) {
		n[a.Guest]++
	}
	return strings.TrimPrefix(fmt.Sprint(n), "map")
}

// TestOthersStay: a share that asks again and again pushes out neither what its giver asked for nor what another share did.
func TestOthersStay(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string // asks for 15 changes
		then  string // asks for 20
		code  vfs.Code
		want  string // who has how many that wait
	}{
		{"a share and its giver", "agent", "agent/1", "", "[agent:15 agent/1:1]"},
		{"a share and another", "agent/2", "agent/1", "", "[agent/1:4 agent/2:8]"},
		{"a share of a share", "agent/1", "agent/1/1", vfs.Limit, "[agent/1:8]"},
		{"a giver and its share", "agent/1", "agent", "", "[agent:16]"},
		{"a share, and a share of it", "agent/1/1", "agent/1", "", "[agent/1:8]"},
		{"a giver and a share of its share", "agent/1/1", "agent", "", "[agent:16]"},
		{"a share and its own", "agent/1", "agent/1", "", "[agent/1:8]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := desk(t)
				check.OK(t, gaveUp(t, d, c.first, approval.MaxPending-1))
				if code := vfs.CodeOf(gaveUp(t, d, c.then, 20)); code != c.code {
					t.Errorf("the last answer is %q", code)
				}
				if got := countBy(t, d); got != c.want {
					t.Errorf("%s wait, want %s", got, c.want)
				}
			})
		})
	}
}

// TestOthersFill: where only others could give way, there is no room.
func TestOthersFill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		check.OK(t, gaveUp(t, d, "agent", approval.MaxPending))
		check.Is(t, "a share", gaveUp(t, d, "agent/1", 1), vfs.Limit)
		if got := countBy(t, d); got != "[agent:16]" {
			t.Errorf("%s wait", got)
		}
	})
}

// TestSharesLeaveRoom: however many calls of shares wait, there is room for the giver, and for other shares.
func TestSharesLeaveRoom(t *testing.T) {
	for name, c := range map[string]struct {
		hostile []string // each makes 20 calls, which go on to wait
		then    []string // makes one
		want    string
	}{
		"one":               {[]string{"agent/1"}, []string{"agent/2", "agent"}, "[agent:1 agent/1:8 agent/2:1]"},
		"two":               {[]string{"agent/1", "agent/2"}, []string{"agent/3", "agent"}, "[agent:1 agent/1:8 agent/2:4 agent/3:1]"},
		"all":               {[]string{"agent/1", "agent/2", "agent/3", "agent/4", "agent/5"}, []string{"agent"}, "[agent:1 agent/1:8 agent/2:4 agent/3:2 agent/4:1]"},
		"with its own":      {[]string{"agent/1/1", "agent/1/2", "agent/1"}, []string{"agent/2", "agent"}, "[agent:1 agent/1/1:4 agent/1/2:4 agent/2:1]"},
		"its own":           {[]string{"agent/1/1"}, []string{"agent/1/2", "agent/1", "agent/2"}, "[agent/1:1 agent/1/1:4 agent/1/2:1 agent/2:1]"},
		"at the very depth": {[]string{"agent/1/1/1/1/1/1"}, []string{"agent/1/1", "agent/1"}, "[agent/1:1 agent/1/1:1 agent/1/1/1/1/1/1:1]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := desk(t)
				ctx, cancel := context.WithCancel(t.Context())
				var all []*asking
				for _, guest := range c.hostile {
					for i := range 20 {
						all = append(all, ask(ctx, d, askedBy(guest, i)))
						synctest.Wait()
					}
				}
				for _, guest := range c.then {
					last := ask(ctx, d, askedBy(guest, 0))
					if all = append(all, last); !last.waits() {
						t.Errorf("%s: %v", guest, last.err)
					}
				}
				if got := countBy(t, d); got != c.want {
					t.Errorf("%s wait, want %s", got, c.want)
				}
				cancel()
				for _, c := range all {
					<-c.done
				}
			})
		})
	}
}

// TestShareEnds: what an ended share asked for makes room, whether a call waits for it or not.
func TestShareEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		d, err := approval.Open(t.Context(), db, approval.Options{Patient: true})
		check.OK(t, err)
		check.OK(t, gaveUp(t, d, "agent", approval.MaxPending/2))
		check.OK(t, gaveUp(t, d, "agent/2", approval.MaxPending/2-1))
		ctx, revoke := context.WithCancelCause(t.Context())
		var waiting []*asking
		for range 2 {
			waiting = append(waiting, ask(ctx, d, askedBy("agent/2", 99)))
		}
		synctest.Wait()
		check.Is(t, "another share", gaveUp(t, d, "agent/1", 1), vfs.Limit)

		check.OK(t, db.Write(func(tx *database.Tx) error { return d.Ended(tx, []int64{3}) }))
		revoke(vfs.Revoked)
		for _, c := range waiting {
			check.Is(t, "a call that waits", c.ended(), vfs.Revoked)
		}
		time.Sleep(time.Second)
		if got := countBy(t, d); got != "[agent:8]" {
			t.Errorf("%s wait", got)
		}
		check.OK(t, gaveUp(t, d, "agent/1", approval.MaxPending))
		list, err := d.List(t.Context(), true, operator.Ask{})
		check.OK(t, err)
		if len(list) != approval.MaxPending {
			t.Errorf("%d are listed", len(list))
		}
	})
}
