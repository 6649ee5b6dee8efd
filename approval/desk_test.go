package approval_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"capd/approval"
	"capd/database"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// put is a change that needs an approval.
var put = approval.Asked{
	Root: 1, Grant: 2, Guest: "agent/2", Operation: "replace", Path: "project/.git/config",
	Found: vfs.If{Is: vfs.Version{1}}, Digest: vfs.Version{2}, Size: 3, Why: []string{"project: **/.git/**"},
	Diff: func() string { return "-a\n+b\n" },
}

// desk opens a desk in memory, and listens.
func desk(t *testing.T) *approval.Desk {
	t.Helper()
	db := database.Memory()
	t.Cleanup(func() { check.OK(t, db.Close()) })
	d, err := approval.Open(t.Context(), db, approval.Options{Patient: true})
	check.OK(t, err)
	return d
}

// asking is a call that waits for an approval.
type asking struct {
	got  *approval.Approval
	err  error
	done chan struct{}
}

func ask(ctx context.Context, d *approval.Desk, a approval.Asked) *asking {
	c := &asking{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.got, c.err = d.Ask(ctx, a)
	}()
	return c
}

// ended waits for the outcome, and answers its error.
func (c *asking) ended() error {
	<-c.done
	return c.err
}

// waits reports whether c waits, when nothing else happens.
func (c *asking) waits() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// pending returns what waits for a decision.
func pending(t *testing.T, d *approval.Desk) []operator.Ask {
	t.Helper()
	list, err := d.List(t.Context(), false, operator.Ask{})
	check.OK(t, err)
	return list
}

// decide decides about the only request that waits.
func decide(t *testing.T, d *approval.Desk, v operator.Verdict) {
	t.Helper()
	list := pending(t, d)
	if len(list) != 1 {
		t.Fatalf("%d requests wait: %+v", len(list), list)
	}
	_, err := d.Decide(list[0].ID, v, "console")
	check.OK(t, err)
}

var (
	once   = operator.Verdict{Answer: operator.Once}
	always = operator.Verdict{Answer: operator.Always}
	no     = operator.Verdict{Answer: operator.Deny, Reason: "not that"}
)

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		verdict operator.Verdict
		want    vfs.Code
		again   vfs.Code // of an equal change afterwards, when nobody decides; askTimeout: it asks
	}{
		"once":   {once, "", vfs.AskTimeout},
		"always": {always, "", ""},
		"deny":   {no, vfs.Denied, vfs.Denied},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := desk(t)
				first := ask(t.Context(), d, put)
				if !first.waits() {
					t.Fatalf("it does not wait: %v", first.err)
				}
				list := pending(t, d)
				if a := list[0]; a.Guest != "agent/2" || a.Grant != "g1" || a.Path != put.Path || a.Diff != "" || a.Why[0] != put.Why[0] || a.Size != 3 {
					t.Errorf("listed %+v", a)
				}
				shown, err := d.Show(t.Context(), list[0].ID[:6])
				if check.OK(t, err); shown.Diff != put.Diff() {
					t.Errorf("shown %+v", shown)
				}
				decide(t, d, c.verdict)
				check.Is(t, "the first", first.ended(), c.want)
				if name == "deny" && !strings.Contains(first.err.Error(), no.Reason) {
					t.Errorf("the guest is told %v", first.err)
				}
				if first.got != nil {
					check.OK(t, first.got.Use()())
				}
				check.Is(t, "an equal one", ask(t.Context(), d, put).ended(), c.again)
			})
		})
	}
}

// TestBound: a yes holds for an equal change alone.
func TestBound(t *testing.T) {
	for name, change := range map[string]func(a *approval.Asked){
		"another root grant": func(a *approval.Asked) { a.Root = 9 },
		"another share":      func(a *approval.Asked) { a.Grant = 9 },
		"another operation":  func(a *approval.Asked) { a.Operation = "remove" },
		"another path":       func(a *approval.Asked) { a.Path += "x" },
		"another target":     func(a *approval.Asked) { a.To = "x" },
		"moved apart":        func(a *approval.Asked) { a.Path, a.To = a.Path[:5], a.Path[5:] },
		"another version":    func(a *approval.Asked) { a.Found.Is[31] = 1 },
		"nothing there":      func(a *approval.Asked) { a.Found = vfs.If{Absent: true} },
		"another there":      func(a *approval.Asked) { a.FoundTo.Is[0] = 1 },
		"another content":    func(a *approval.Asked) { a.Digest[0]++ },
		"executable":         func(a *approval.Asked) { a.Exec = true },
	} {
		synctest.Test(t, func(t *testing.T) {
			d := desk(t)
			first := ask(t.Context(), d, put)
			synctest.Wait()
			decide(t, d, once)
			check.OK(t, first.ended())
			first.got.Drop() // it was not used
			other := put
			change(&other)
			ctx, cancel := context.WithCancel(t.Context())
			second := ask(ctx, d, other)
			if !second.waits() {
				t.Errorf("%s: the approval held: %v", name, second.err)
			}
			cancel()
			<-second.done
			check.OK(t, ask(t.Context(), d, put).ended()) // this one still holds
		})
	}
}

func TestCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		var diffs atomic.Int32
		a := put
		a.Diff = func() string { diffs.Add(1); return "x" }
		var calls []*asking
		for range 5 {
			calls = append(calls, ask(t.Context(), d, a))
		}
		synctest.Wait()
		if n := diffs.Load(); n != 1 {
			t.Errorf("%d diffs were made", n)
		}
		decide(t, d, once)
		yes := 0
		for _, c := range calls {
			if err := c.ended(); err == nil {
				yes++
			} else {
				check.Is(t, "another", err, vfs.Conflict)
			}
		}
		if yes != 1 {
			t.Errorf("one yes was used %d times", yes)
		}
	})
}

func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		d, err := approval.Open(t.Context(), db, approval.Options{})
		check.OK(t, err)
		check.Is(t, "at once", ask(t.Context(), d, put).ended(), vfs.AskDenied)
		check.Is(t, "beforehand", d.Expect(put), vfs.AskDenied)
		if got := pending(t, d); len(got) > 0 {
			t.Errorf("%d wait", len(got))
		}
		stop := d.Listen()
		check.OK(t, d.Expect(put))
		c := ask(t.Context(), d, put)
		if !c.waits() {
			t.Fatalf("it does not wait: %v", c.err)
		}
		stop()
		time.Sleep(9 * time.Second) // a watch that begins again has not ended
		check.OK(t, d.Expect(put))
		time.Sleep(2 * time.Second)
		check.Is(t, "nobody any more", d.Expect(put), vfs.AskDenied)
		decide(t, d, once)
		check.OK(t, c.ended())
		c.got.Drop()
		check.OK(t, d.Expect(put)) // that was approved
		check.OK(t, ask(t.Context(), d, put).ended())
		check.Is(t, "and used", d.Expect(put), vfs.AskDenied)
	})
}

func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		begun := time.Now()
		check.Is(t, "no decision", ask(t.Context(), d, put).ended(), vfs.AskTimeout)
		if took := time.Since(begun); took != approval.Patience {
			t.Errorf("it waited %v", took)
		}
		decide(t, d, once) // the request has outlived the call
		time.Sleep(approval.Holds - time.Second)
		c := ask(t.Context(), d, put)
		check.OK(t, c.ended())
		c.got.Drop()
		time.Sleep(time.Second)
		check.Is(t, "a yes that is too old", ask(t.Context(), d, put).ended(), vfs.AskTimeout)
		shown, err := d.Show(t.Context(), pending(t, d)[0].ID)
		if check.OK(t, err); shown.Diff == "" {
			t.Error("the diff is gone before the decision")
		}
		decide(t, d, operator.Verdict{Answer: operator.Always, For: time.Hour})
		time.Sleep(time.Hour - time.Second)
		check.OK(t, ask(t.Context(), d, put).ended())
		time.Sleep(time.Second)
		check.Is(t, "always has ended", ask(t.Context(), d, put).ended(), vfs.AskTimeout)
		time.Sleep(24 * time.Hour)
		if got := pending(t, d); len(got) > 0 {
			t.Errorf("%d wait after a day", len(got))
		}
	})
}

func TestFirstDecisionWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		c := ask(t.Context(), d, put)
		synctest.Wait()
		id := pending(t, d)[0].ID
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				_, err := d.Decide(id, []operator.Verdict{once, no}[i%2], fmt.Sprint(i))
				if err == nil {
					won.Add(1)
				} else if vfs.CodeOf(err) != vfs.Conflict {
					t.Errorf("decision %d: %v", i, err)
				}
			})
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Errorf("%d decisions counted", n)
		}
		<-c.done
		list, err := d.List(t.Context(), true, operator.Ask{})
		check.OK(t, err)
		if said := list[0].Answer == operator.Once; said != (c.err == nil) {
			t.Errorf("listed %+v, and the call got %v", list[0], c.err)
		}
	})
}

func TestSixteen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		other := func(i int) approval.Asked {
			a := put
			a.Grant, a.Guest, a.Path = 1, "agent", fmt.Sprint("project/.git/", i)
			return a
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var calls []*asking
		for i := range approval.MaxPending {
			calls = append(calls, ask(ctx, d, other(i)))
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		check.Is(t, "one more", ask(ctx, d, other(99)).ended(), vfs.Limit)
		neighbour := put
		neighbour.Root = 2
		if !ask(ctx, d, neighbour).waits() {
			t.Error("another grant does not wait")
		}
		cancel()
		for _, c := range calls {
			<-c.done
		}
		if c := ask(t.Context(), d, other(99)); !c.waits() { // it takes the place of the first, for which no call waits
			t.Errorf("one more: %v", c.err)
		}
		for _, a := range pending(t, d) {
			if a.Path == other(0).Path {
				t.Error("the oldest is still there")
			}
		}
		if n := len(pending(t, d)); n != approval.MaxPending+1 {
			t.Errorf("%d wait", n)
		}
	})
}

// TestGrantEnds: what a revoked grant asked for is not shown any more.
func TestGrantEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		ctx, revoke := context.WithCancelCause(t.Context())
		c := ask(ctx, d, put)
		synctest.Wait()
		revoke(vfs.Revoked)
		check.Is(t, "the call", c.ended(), vfs.Revoked)
		time.Sleep(time.Second)
		if got := pending(t, d); len(got) > 0 {
			t.Errorf("%d wait", len(got))
		}
	})
}
