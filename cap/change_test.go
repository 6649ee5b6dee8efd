package cap_test

import (
	"crypto/sha256"
	"testing"

	"capd/client"
	"capd/host"
	"capd/tests/scene"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/step"
	"capd/vfs/vfstest/check"
)

// TestChange makes every kind of step over the wire, and none of a change of which one step is refused.
func TestChange(t *testing.T) {
	x := newExplained(t)
	s := scene.Serve(t, x.names.Root(), scene.Options{Options: host.Options{Logf: t.Logf}})
	at, _ := s.Grant(t, "agent", "p", false)
	d := scene.Dial(t, at).Dir(t.Context())
	is := vfs.If{Is: sha256.Sum256([]byte("a"))}
	steps := []step.Step{
		{Verb: step.Edit, Path: "a", Edits: []edit.Edit{{Old: []byte("a"), New: []byte("A")}}, If: is},
		{Verb: step.Mkdir, Path: "fresh"},
		{Path: "fresh/f", Data: []byte("new"), If: vfs.If{Absent: true}},
		{Verb: step.Move, Path: "d/b", To: "fresh/b"},
		{Verb: step.Remove, Path: "empty"},
	}
	before := dump(t, x.open)
	refused := append(steps[:len(steps):len(steps)], step.Step{Verb: step.Remove, Path: "none"})
	check.Is(t, "one that is refused", d.Change(t.Context(), refused, false), vfs.NotFound)
	check.Is(t, "a dry run", d.Change(t.Context(), steps, true), "")
	if after := dump(t, x.open); after != before {
		t.Errorf("the tree was changed from\n%s to\n%s", before, after)
	}
	ok(t, d.Change(t.Context(), steps, false))
	for i, want := range []string{"A", "", "new", "", ""} {
		if v := steps[i].Left; want != "" && v != sha256.Sum256([]byte(want)) || want == "" && !v.IsZero() {
			t.Errorf("step %d left %v", i, v)
		}
	}
	t.Log(before, "\n", dump(t, x.open))
	// Whoever may not read does not find out whether a guess is right.
	blind := d.Narrow(client.AllRights &^ client.Read)
	for _, guess := range []string{"A", "B"} {
		check.Is(t, guess, blind.Change(t.Context(), []step.Step{{Path: "a", Data: []byte(guess)}}, false), vfs.Denied)
	}
}
