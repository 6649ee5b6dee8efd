package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/vfs"
	parts "capd/vfs/edit"
	edits "capd/vfs/editing"
)

// What a guest can ask for with few bytes is answered or refused at once.
func TestAttackCosts(t *testing.T) {
	h := serve(t)
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	part := []byte("ab 4567890123456789012345678901234567890")
	ok(t, os.WriteFile(filepath.Join(h.served, "line"), bytes.Repeat(part, 99_000), 0o644))
	f := d.OpenFile("line")
	begun := time.Now()
	made, err := f.Edit(t.Context(), edits.Request{Edits: []parts.Edit{{Old: []byte("ab"), New: []byte("cde"), All: true}}})
	if err != nil || made.Replaced != 99_000 || !made.Cut {
		t.Errorf("an edit of one long line: %d places, cut: %v, %v", made.Replaced, made.Cut, err)
	}
	braces := "{" + strings.Repeat("a,b,", 31) + "c}" + strings.Repeat("x", 1<<20)
	for name, g := range map[string]client.Grep{"only": {Only: []string{braces}}, "except": {Except: []string{braces}}} {
		g.Pattern = "hit"
		for _, err := range d.Grep(t.Context(), g) {
			is(t, name+", which stands for 63 MiB of patterns", err, "limit")
		}
	}
	if took := time.Since(begun); took > prompt {
		t.Errorf("it took %v", took)
	}
}

// The contents of what is withheld are not searched, packed or read by any of the calls that take many files.
func TestAttackDenyOfMany(t *testing.T) {
	h := serve(t)
	for _, name := range []string{".ssh/id", "d/.env", "d/key.pem", "d/seen"} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(h.served, name)), 0o755))
		ok(t, os.WriteFile(filepath.Join(h.served, name), []byte(secret), 0o600))
	}
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	for _, show := range []client.GrepShow{client.GrepLines, client.GrepNames, client.GrepCounts} {
		var found []string
		for f, err := range d.Grep(t.Context(), client.Grep{Pattern: ".", Show: show}) {
			ok(t, err)
			found = append(found, f.Path)
		}
		if !slices.Equal(found, []string{"bait", "d/seen"}) && !slices.Equal(found, []string{"d/seen"}) {
			t.Errorf("grep found %q", found)
		}
	}
	for _, path := range []string{".ssh/id", ".ssh/none", "d/.env", "d/.env.none"} {
		for _, err := range d.Grep(t.Context(), client.Grep{Path: path, Pattern: "."}) {
			is(t, "grep "+path, err, "denied")
		}
		_, err := d.OpenFile(path).Edit(t.Context(), edits.Request{Edits: []parts.Edit{{Old: []byte("a"), New: []byte("b")}}, Dry: true})
		is(t, "edit "+path, err, "denied")
		is(t, "setAttributes "+path, d.OpenFile(path).SetAttributes(t.Context(), vfs.Attributes{Exec: new(true)}, vfs.If{}), "denied")
	}
}
