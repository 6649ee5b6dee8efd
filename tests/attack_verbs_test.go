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
		_, err = d.Copy(t.Context(), path, d, "copied", vfs.If{}, vfs.If{})
		is(t, "copy "+path, err, "denied")
		_, err = d.Copy(t.Context(), "d/seen", d, path, vfs.If{}, vfs.If{Over: true})
		is(t, "copy to "+path, err, "denied")
	}
	done, err := d.Copy(t.Context(), "d", d, "all", vfs.If{}, vfs.If{}) // neither shown nor betrayed
	ok(t, err)
	if held := names(t, filepath.Join(h.served, "all")); done.Entries != 2 || !slices.Equal(held, []string{"seen"}) {
		t.Errorf("%d entries were copied, and the copy holds %q", done.Entries, held)
	}
}

// A guest copies links that lead out, and directories into themselves: nothing of the host comes in, and nothing grows without end.
func TestAttackCopies(t *testing.T) {
	h := serve(t)
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	for link, to := range map[string]string{"host": "/etc", "up": "../..", "d/over": "../../secret", "loop/loop": "../loop"} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(h.served, link)), 0o755))
		ok(t, os.Symlink(to, filepath.Join(h.served, link)))
	}
	for path, want := range map[string]string{
		"host": "unsupported", "up": "unsupported", "d": "outside", "loop": "outside", "host/passwd": "outside", "up/x": "outside", "../x": "invalid", "/etc": "invalid",
	} {
		_, err := d.Copy(t.Context(), path, d, "got-"+strings.NewReplacer("/", "-", ".", "-").Replace(path), vfs.If{}, vfs.If{})
		is(t, "copy "+path, err, want)
	}
	for _, to := range []string{"loop/in", "loop/loop/in", "all/loop/loop/loop/in"} {
		_, err := d.Copy(t.Context(), "loop", d, to, vfs.If{}, vfs.If{})
		is(t, "copy into itself, "+to, err, map[bool]string{true: "invalid", false: "notFound"}[strings.HasPrefix(to, "loop")])
	}
	if held := names(t, h.served); slices.Contains(held, "got-d") || slices.Contains(held, "got-host") {
		t.Errorf("there is %q", held)
	}
}

// names returns what a directory of this machine holds.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	ok(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
