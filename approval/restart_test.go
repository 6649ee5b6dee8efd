package approval_test

import (
	"testing"
	"testing/synctest"

	"capd/approval"
	"capd/database"
	"capd/operator"
	"capd/state"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// run is a desk with its state on disk, from its start to its end.
func run(t *testing.T, at state.Dir, do func(t *testing.T, d *approval.Desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, err := database.Open(at, database.Options{})
		check.OK(t, err)
		defer func() { check.OK(t, db.Close()) }()
		d, err := approval.Open(t.Context(), db, approval.Options{Patient: true})
		check.OK(t, err)
		do(t, d)
	})
}

// TestSurvivesRestart: what waits, a yes that was not used, and a yes for always are there after a restart. A yes that was used is not.
func TestSurvivesRestart(t *testing.T) {
	at := state.Dir(t.TempDir())
	var id string
	run(t, at, func(t *testing.T, d *approval.Desk) {
		check.Is(t, "the first call", ask(t.Context(), d, put).ended(), vfs.AskTimeout)
		id = pending(t, d)[0].ID
	})
	run(t, at, func(t *testing.T, d *approval.Desk) {
		if list := pending(t, d); len(list) != 1 || list[0].ID != id {
			t.Fatalf("%+v wait", list)
		}
		decide(t, d, once)
		_, err := d.Decide(id, no, "another")
		check.Is(t, "a second decision", err, vfs.Conflict)
	})
	run(t, at, func(t *testing.T, d *approval.Desk) {
		_, err := d.Decide(id, no, "another")
		check.Is(t, "a second decision", err, vfs.Conflict)
		c := ask(t.Context(), d, put)
		check.OK(t, c.ended())
		check.OK(t, c.got.Use()())
	})
	run(t, at, func(t *testing.T, d *approval.Desk) {
		c := ask(t.Context(), d, put)
		if !c.waits() {
			t.Fatalf("the yes was used, and holds again: %v", c.err)
		}
		decide(t, d, operator.Verdict{Answer: operator.Always, Pattern: "project/.git/**"})
		check.OK(t, c.ended())
		list, err := d.Standing(t.Context())
		check.OK(t, err)
		check.OK(t, ask(t.Context(), d, put).ended())
		check.OK(t, d.End(list[0].ID))
		c = ask(t.Context(), d, put)
		if !c.waits() {
			t.Fatalf("always was ended, and holds: %v", c.err)
		}
		decide(t, d, operator.Verdict{Answer: operator.Always, Pattern: "project/.git/**"})
		check.OK(t, c.ended())
	})
	run(t, at, func(t *testing.T, d *approval.Desk) {
		other := put
		other.Path = "project/.git/hooks/x"
		check.OK(t, ask(t.Context(), d, other).ended())
		list, err := d.Standing(t.Context())
		check.OK(t, err)
		if len(list) != 1 || list[0].Pattern != "project/.git/**" || list[0].Grant != "g1" {
			t.Fatalf("%+v hold", list)
		}
		check.OK(t, d.End(list[0].ID))
		check.Is(t, "ended twice", d.End(list[0].ID), vfs.NotFound)
		check.Is(t, "after the end", ask(t.Context(), d, other).ended(), vfs.AskTimeout)
	})
	run(t, at, func(t *testing.T, d *approval.Desk) {
		check.Is(t, "after the end and a restart", ask(t.Context(), d, put).ended(), vfs.AskTimeout)
	})
}

// TestStandingOver: a change that began under an approval that has ended since asks nobody, since it was not looked at what is there.
func TestStandingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		first := ask(t.Context(), d, put)
		synctest.Wait()
		decide(t, d, always)
		check.OK(t, first.ended())
		stood := put
		stood.Found, stood.Stands = vfs.If{}, true
		check.OK(t, ask(t.Context(), d, stood).ended())
		list, err := d.Standing(t.Context())
		check.OK(t, err)
		check.OK(t, d.End(list[0].ID))
		check.Is(t, "after the end", ask(t.Context(), d, stood).ended(), vfs.AskDenied)
		if list := pending(t, d); len(list) != 0 {
			t.Errorf("%+v wait", list)
		}
	})
}

// TestVerdicts: a decision that means nothing is refused, and the request waits on.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t)
		c := ask(t.Context(), d, put)
		synctest.Wait()
		for name, v := range map[string]operator.Verdict{
			"no answer":              {},
			"another answer":         {Answer: "yes"},
			"a yes with a reason":    {Answer: operator.Once, Reason: "why not"},
			"once with a pattern":    {Answer: operator.Once, Pattern: "**"},
			"a bad pattern":          {Answer: operator.Always, Pattern: "["},
			"a pattern of elsewhere": {Answer: operator.Always, Pattern: "other/**"},
			"always for a past":      {Answer: operator.Always, For: -1},
		} {
			_, err := d.Decide(pending(t, d)[0].ID, v, "console")
			check.Is(t, name, err, vfs.Invalid)
		}
		for ref, want := range map[string]vfs.Code{"": vfs.Invalid, "12345": vfs.Invalid, "zzzzzz": vfs.NotFound} {
			_, err := d.Decide(ref, once, "console")
			check.Is(t, ref, err, want)
		}
		if !c.waits() {
			t.Errorf("it waits no more: %v", c.err)
		}
		decide(t, d, no)
		<-c.done
	})
}
