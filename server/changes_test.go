package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/server"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/step"
	"capd/vfs/vfstest/check"
)

// TestChangeEveryMount makes every kind of step in every kind of mount that can be written, within one and from one to the next. If the
// last step is refused, nothing has changed anywhere.
func TestChangeEveryMount(t *testing.T) {
	at, below := t.TempDir(), t.TempDir()
	repo := t.TempDir()
	write(t, filepath.Join(repo, "README"), "readme")
	commitAll(t, repo)
	s := started(t, &server.Server{State: t.TempDir(), Mounts: []server.Mount{
		{Path: "disk", URL: server.PhysicalURL(at)},
		{Path: "memory", URL: "memory:"},
		{Path: "over", URL: "overlay:" + server.PhysicalURL(below)},
		{Path: "git", URL: "git:" + repo + "?writable#main"},
		{Path: "fixed", URL: server.PhysicalURL(t.TempDir()), Attenuation: server.Attenuation{ReadOnly: true}},
	}})
	d := named(t, s, server.Guest{Name: "guest"})
	mounts := []string{"disk", "git", "memory", "over"}
	var steps []step.Step
	for i, m := range mounts {
		for _, name := range []string{"edited", "moved", "removed", "leaves", "emptied/file", "turned"} {
			if dir, _, ok := strings.Cut(name, "/"); ok {
				made, err := d.SubDir(m).Mkdir(t.Context(), dir)
				check.OK(t, err)
				made.Close()
			}
			_, err := d.Put(t.Context(), m+"/"+name, strings.NewReader(name+" of "+m), vfs.If{})
			check.OK(t, err)
		}
		steps = append(steps,
			step.Step{Verb: step.Edit, Path: m + "/edited", Edits: []edit.Edit{{Old: []byte("edited"), New: []byte("changed")}}},
			step.Step{Verb: step.Mkdir, Path: m + "/fresh"},
			step.Step{Verb: step.Move, Path: m + "/moved", To: m + "/fresh/moved"},
			step.Step{Path: m + "/fresh/put", Data: []byte(m), If: vfs.If{Absent: true}},
			step.Step{Verb: step.Remove, Path: m + "/removed"},
			step.Step{Verb: step.Remove, Path: m + "/emptied/file"}, step.Step{Verb: step.Remove, Path: m + "/emptied"},
			step.Step{Verb: step.Remove, Path: m + "/turned"}, step.Step{Verb: step.Mkdir, Path: m + "/turned"},
			step.Step{Path: m + "/turned/within", Data: []byte(m)},
			step.Step{Verb: step.Move, Path: m + "/leaves", To: mounts[(i+1)%len(mounts)] + "/arrives"},
		)
	}
	before := holds(t, d, mounts)
	for what, last := range map[string]step.Step{
		"a file that is not there":   {Verb: step.Remove, Path: "disk/none"},
		"a mount that is read-only":  {Path: "fixed/f", Data: []byte("x")},
		"what a step before removed": {Verb: step.Edit, Path: "git/removed", Edits: []edit.Edit{{Old: []byte("r"), New: []byte("R")}}},
		"a mount itself":             {Verb: step.Remove, Path: "memory"},
	} {
		if err := d.Change(t.Context(), append(steps[:len(steps):len(steps)], last), false); vfs.CodeOf(err) == "" {
			t.Errorf("%s: it was made", what)
		}
		if now := holds(t, d, mounts); now != before {
			t.Errorf("%s: there is\n%s, and was\n%s", what, now, before)
		}
	}
	check.OK(t, d.Change(t.Context(), steps, true))
	if now := holds(t, d, mounts); now != before {
		t.Errorf("a dry run left\n%s", now)
	}
	check.OK(t, d.Change(t.Context(), steps, false))
	var want strings.Builder
	for i, m := range mounts {
		from := mounts[(i+len(mounts)-1)%len(mounts)]
		fmt.Fprintf(&want, "%s/arrives: leaves of %s\n%[1]s/edited: changed of %[1]s\n%[1]s/fresh/moved: moved of %[1]s\n%[1]s/fresh/put: %[1]s\n%[1]s/turned/within: %[1]s\n", m, from)
	}
	if now := holds(t, d, mounts); now != want.String() {
		t.Errorf("there is\n%s, want\n%s", now, want.String())
	}
	after := want.String()
	for _, want := range []string{before, after, before, after} { // an undo is a change, which can be undone
		page, err := d.History(t.Context(), vfs.PastQuery{Limit: 1})
		check.OK(t, err)
		_, err = d.Undo(t.Context(), vfs.Undo{ID: page.Entries[0].ID})
		check.OK(t, err)
		if now := holds(t, d, mounts); now != want {
			t.Errorf("after an undo there is\n%s, want\n%s", now, want)
		}
	}
	if entries, err := os.ReadDir(below); err != nil || len(entries) != 0 {
		t.Errorf("what lies below the overlay has %d entries, %v", len(entries), err)
	}
	if _, err := os.Lstat(filepath.Join(at, "fresh", "put")); err != nil {
		t.Error(err)
	}
}

// holds returns what is in the files of mounts, a line for each but for what a repository began with.
func holds(t *testing.T, d *client.Dir, mounts []string) string {
	t.Helper()
	var all strings.Builder
	for e, err := range d.Glob(t.Context(), "{"+strings.Join(mounts, ",")+"}/**") {
		if check.OK(t, err); e.Kind != vfs.FileKind || e.Name == "git/README" {
			continue
		}
		text, _, err := d.OpenFile(e.Name).ReadText(t.Context())
		check.OK(t, err)
		fmt.Fprintf(&all, "%s: %s\n", e.Name, text)
	}
	return all.String()
}
