package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/client"
	"capd/meter"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// casTree puts tree into a content-addressed store, and returns the URL of it.
func casTree(t *testing.T, tree vfstest.Tree) string {
	t.Helper()
	dir := t.TempDir()
	blobs, err := cas.OpenAmbient(dir, cas.Options{})
	check.OK(t, err)
	s := memory.New(memory.Limits{})
	check.Fill(t, s, tree)
	stored, err := cas.Put(t.Context(), blobs, s.Root(), cas.PutOptions{})
	check.OK(t, err)
	return fmt.Sprintf("cas:%s#%x", dir, stored.Hash)
}

// everyKind is a host with a mount of every kind of store. Those named in the result can be written.
func everyKind(t *testing.T, s *server.Server) (_ *server.Server, writable []string) {
	t.Helper()
	repo := t.TempDir()
	write(t, filepath.Join(repo, "README"), "readme")
	commitAll(t, repo)
	below := t.TempDir()
	write(t, filepath.Join(below, "lower"), "lower")
	fixed := casTree(t, vfstest.Tree{"f": {Data: "fixed"}, "d/e/g": {Data: "fixed below"}})
	s.Mounts = append(s.Mounts,
		server.Mount{Path: "disk", URL: server.PhysicalURL(t.TempDir())},
		server.Mount{Path: "git", URL: "git:" + repo + "?writable#main"},
		server.Mount{Path: "memory", URL: "memory:"},
		server.Mount{Path: "over", URL: "overlay:" + server.PhysicalURL(below)},
		server.Mount{Path: "kept", URL: "overlay:keep:" + server.PhysicalURL(below)},
		server.Mount{Path: "onblobs", URL: "overlay:" + fixed},
		server.Mount{Path: "disk/nested/memory", URL: "memory:"},
		server.Mount{Path: "blobs", URL: fixed},
		server.Mount{Path: "fixed", URL: server.PhysicalURL(t.TempDir()), Attenuation: server.Attenuation{ReadOnly: true}},
	)
	return started(t, s), []string{"disk", "git", "memory", "over", "kept", "onblobs", "disk/nested/memory"}
}

// usedBy is what guests use of k.
func usedBy(s *server.Server, k meter.Kind) int64 { return s.Authority().Meters().All().Used(k) }

// temporary are the temporary directories on disk.
func temporary(t *testing.T, s *server.Server) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.State, "temps"))
	check.OK(t, err)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil { // and not where contents and changes are staged
			names = append(names, e.Name())
		}
	}
	return names
}

// gone waits until there are only n temporary directories, on disk and in the limits.
func gone(t *testing.T, s *server.Server, n int) {
	t.Helper()
	check.Eventually(t, "temporary directories are removed", func() bool {
		return len(temporary(t, s)) == n && usedBy(s, meter.Temps) == int64(n)
	})
}

func puts(t *testing.T, d *client.Dir, path, text string) error {
	_, err := d.Put(t.Context(), path, strings.NewReader(text), vfs.If{})
	return err
}

func has(t *testing.T, d *client.Dir, path, want string) {
	t.Helper()
	f := d.OpenFile(path)
	defer f.Close()
	got, _, err := f.ReadText(t.Context())
	if err != nil || got != want {
		t.Errorf("%s has %q, %v, want %q", path, got, err, want)
	}
}

func absent(t *testing.T, d *client.Dir, path string) {
	t.Helper()
	_, err := d.WalkStat(t.Context(), path, false)
	check.Is(t, path, err, vfs.NotFound)
}

// TestTempEveryStore moves and copies files and directories between a temporary directory and every kind of store, both ways. What is
// stored counts once wherever it is, and no more when it is gone.
func TestTempEveryStore(t *testing.T) {
	s, writable := everyKind(t, &server.Server{})
	for _, m := range writable {
		t.Run(strings.ReplaceAll(m, "/", " in "), func(t *testing.T) {
			top := named(t, s, server.Guest{Name: "guest-" + strings.ReplaceAll(m, "/", "-")})
			d, tmp := top.SubDir(m), top.Temp()
			ctx, none := t.Context(), vfs.If{}
			exec := strings.Repeat("#!x", 100)
			begin := usedBy(s, meter.StoredBytes)
			counts := func(when string, bytes int64) {
				t.Helper()
				if now := usedBy(s, meter.StoredBytes) - begin; now != bytes {
					t.Errorf("%s: %d bytes are counted, want %d", when, now, bytes)
				}
			}
			check.OK(t, puts(t, d, "one", "1"))
			for _, path := range []string{"dir", "dir/sub"} {
				made, err := d.CreateDir(ctx, path)
				check.OK(t, err)
				check.OK(t, made.Close())
			}
			check.OK(t, puts(t, d, "dir/sub/two", "22"))
			check.OK(t, puts(t, d, "dir/x", exec))
			on := true
			err := d.OpenFile("dir/x").SetAttributes(ctx, vfs.Attributes{Exec: &on}, none)
			canExec := vfs.CodeOf(err) != vfs.Unsupported
			if canExec {
				check.OK(t, err)
			}
			counts("at first", 303)
			// Into it.
			check.OK(t, d.Move(ctx, "one", tmp, "one", none, none))
			absent(t, d, "one")
			has(t, tmp, "one", "1")
			check.OK(t, d.Move(ctx, "dir", tmp, "dir", none, none))
			absent(t, d, "dir")
			has(t, tmp, "dir/sub/two", "22")
			counts("moved in", 303)
			// Back.
			check.OK(t, tmp.Move(ctx, "one", d, "again", none, none))
			check.OK(t, tmp.Move(ctx, "dir", d, "dir", none, none))
			has(t, d, "again", "1")
			has(t, d, "dir/sub/two", "22")
			absent(t, tmp, "dir")
			if canExec {
				info, err := d.WalkStat(ctx, "dir/x", false)
				if check.OK(t, err); !info.Exec {
					t.Error("it cannot be executed any more")
				}
			}
			counts("moved out", 303)
			// Over what is there.
			check.OK(t, puts(t, tmp, "again", "333"))
			check.Is(t, "a move onto a file", tmp.Move(ctx, "again", d, "again", none, none), vfs.Exists)
			check.OK(t, tmp.Move(ctx, "again", d, "again", none, vfs.If{Over: true}))
			has(t, d, "again", "333")
			counts("replaced", 305)
			// Copies.
			copies := func(from *client.Dir, path string, to *client.Dir, newPath string) {
				t.Helper()
				_, err := from.Copy(ctx, path, to, newPath, none, none)
				check.OK(t, err)
			}
			copies(d, "again", tmp, "copy")
			copies(d, "dir", tmp, "dir")
			check.OK(t, puts(t, tmp, "mine", "4444"))
			copies(tmp, "mine", d, "mine")
			copies(tmp, "dir", d, "dir2")
			has(t, d, "mine", "4444")
			has(t, tmp, "copy", "333")
			has(t, d, "dir2/sub/two", "22")
			has(t, tmp, "dir/sub/two", "22")
			counts("copied", 305+3+4+4+302+302)
			check.OK(t, tmp.Close())
			gone(t, s, 0)
			counts("without it", 305+4+302)
		})
	}
	t.Run("what never changes", func(t *testing.T) {
		top := named(t, s, server.Guest{Name: "reader"})
		tmp, ctx, none := top.Temp(), t.Context(), vfs.If{}
		_, err := top.Copy(ctx, "blobs/d", tmp, "d", none, none)
		check.OK(t, err)
		_, err = top.Copy(ctx, "blobs/f", tmp, "f", none, none)
		check.OK(t, err)
		has(t, tmp, "d/e/g", "fixed below")
		for _, m := range []string{"blobs", "fixed"} {
			check.Is(t, "a move to "+m, tmp.Move(ctx, "d", top.SubDir(m), "new", none, none), vfs.ReadOnly)
			check.Is(t, "a move of a file to "+m, tmp.Move(ctx, "f", top.SubDir(m), "new", none, none), vfs.ReadOnly)
			_, err = tmp.Copy(ctx, "d", top.SubDir(m), "new", none, none)
			check.Is(t, "a copy to "+m, err, vfs.ReadOnly)
		}
		check.Is(t, "a move from there", top.Move(ctx, "blobs/d", tmp, "moved", none, none), vfs.ReadOnly)
		check.Is(t, "a move of a file from there", top.Move(ctx, "blobs/f", tmp, "moved", none, none), vfs.ReadOnly)
		absent(t, tmp, "moved")
		has(t, tmp, "d/e/g", "fixed below")
		check.OK(t, tmp.Close())
		gone(t, s, 0)
	})
}

// TestTempUnderRules: each end's rules hold for a move or a copy, whichever end they are at: rights of the capability, names that policy
// withholds, and what needs an approval.
func TestTempUnderRules(t *testing.T) {
	s, writable := everyKind(t, &server.Server{Policy: server.Policy{Rules: []server.Rule{
		{Effect: operator.RuleDeny, Patterns: []string{"**/secret*"}},
		{Effect: operator.RuleAsk, Operations: []string{"write", "delete", "move"}, Patterns: []string{"**/asked/**"}, Except: []string{"**/asked"}},
	}}})
	ctx, none := t.Context(), vfs.If{}
	for _, m := range writable {
		t.Run(strings.ReplaceAll(m, "/", " in "), func(t *testing.T) {
			top := named(t, s, server.Guest{Name: "guest-" + strings.ReplaceAll(m, "/", "-")})
			d, tmp := top.SubDir(m), top.Temp()
			mkdir := func(d *client.Dir, path string) {
				made, err := d.CreateDir(ctx, path)
				check.OK(t, err)
				check.OK(t, made.Close())
			}
			for _, dir := range []*client.Dir{d, tmp} {
				if m != "onblobs" || dir == tmp { // it has d and f
					mkdir(dir, "d")
				}
				check.OK(t, puts(t, dir, "f", "f"))
				check.OK(t, puts(t, dir, "d/g", "g"))
			}
			moves := func(what string, from *client.Dir, name string, to *client.Dir, newName string, want vfs.Code) {
				t.Helper()
				check.Is(t, "a move "+what, from.Move(ctx, name, to, newName, none, none), want)
				_, err := from.Copy(ctx, name, to, newName, none, none)
				check.Is(t, "a copy "+what, err, want)
			}
			// The rights of the capabilities.
			fixed, fixedTemp, unmoving := d.ReadOnly(), tmp.ReadOnly(), tmp.Narrow(client.Read|client.Write|client.List)
			for _, name := range []string{"f", "d"} {
				moves("to where it may only read", tmp, name, fixed, "new", vfs.ReadOnly)
				moves("to a temporary directory that may only be read", d, name, fixedTemp, "new", vfs.ReadOnly)
				check.Is(t, "a move from where it may only read", fixed.Move(ctx, name, tmp, "new", none, none), vfs.ReadOnly)
				check.Is(t, "a move from a temporary directory that may only be read", fixedTemp.Move(ctx, name, d, "new", none, none), vfs.ReadOnly)
				check.Is(t, "without the right to move", unmoving.Move(ctx, name, d, "new", none, none), vfs.ReadOnly)
			}
			check.OK(t, errors.Join(fixedTemp.Close(), unmoving.Close()))
			// Withheld names: neither may they be made there, nor taken from there.
			moves("to a withheld name", tmp, "f", d, "secret", vfs.Denied)
			moves("of a directory to a withheld name", tmp, "d", d, "secrets", vfs.Denied)
			check.OK(t, puts(t, tmp, "secret", "the guest's own"))
			moves("of a name that is withheld there alone", tmp, "secret", d, "secret", vfs.Denied)
			check.OK(t, puts(t, tmp, "d/secret", "the guest's own"))
			moves("of a directory that holds such a name", tmp, "d", d, "new", vfs.Denied)
			has(t, tmp, "d/g", "g")
			absent(t, d, "new")
			check.OK(t, tmp.RemovePath(ctx, "d/secret", none))
			// What needs an approval, with nobody there to give it.
			mkdir(d, "d/asked")
			moves("to what needs an approval", tmp, "f", d, "d/asked/f", vfs.AskDenied)
			moves("of a directory to what needs an approval", tmp, "d", d, "d/asked/d", vfs.AskDenied)
			mkdir(tmp, "asked")
			check.OK(t, puts(t, tmp, "asked/f", "f"))
			moves("of a directory that holds some", tmp, "asked", d, "asked", vfs.AskDenied)
			absent(t, d, "asked/f")
			has(t, tmp, "asked/f", "f")
			check.OK(t, tmp.Close())
			gone(t, s, 0)
		})
	}
	// With somebody there, one question for each.
	defer s.Approvals().Listen()()
	for _, m := range writable {
		t.Run(strings.ReplaceAll(m, "/", " in ")+", asked", func(t *testing.T) {
			top := named(t, s, server.Guest{Name: "asked-" + strings.ReplaceAll(m, "/", "-")})
			d, tmp := top.SubDir(m), top.Temp()
			made, err := tmp.CreateDir(ctx, "d")
			check.OK(t, err)
			check.OK(t, made.Close())
			check.OK(t, puts(t, tmp, "f", "f"))
			check.OK(t, puts(t, tmp, "d/g", "g"))
			asked := func(what string, do func() error) {
				t.Helper()
				done := make(chan error, 1)
				go func() { done <- do() }()
				var list []operator.Ask
				check.Eventually(t, what+" waits", func() bool {
					if len(done) > 0 {
						t.Fatalf("%s does not wait: %v", what, <-done)
					}
					list, _ = s.Approvals().List(ctx, false, operator.Ask{})
					return len(list) == 1
				})
				_, err := s.Approvals().Decide(list[0].ID, operator.Verdict{Answer: operator.Once}, "the test")
				check.OK(t, err)
				select {
				case err := <-done:
					check.OK(t, err)
				case <-time.After(5 * time.Second):
					list, err := s.Approvals().List(ctx, false, operator.Ask{})
					t.Fatalf("%s still waits: %+v, %v", what, list, err)
				}
			}
			asked("a move of a file", func() error { return tmp.Move(ctx, "f", d, "d/asked/f", none, none) })
			has(t, d, "d/asked/f", "f")
			asked("a move of a directory", func() error { return tmp.Move(ctx, "d", d, "d/asked/d", none, none) })
			has(t, d, "d/asked/d/g", "g")
			asked("a move out", func() error { return d.Move(ctx, "d/asked/f", tmp, "out", none, none) })
			has(t, tmp, "out", "f")
			absent(t, d, "d/asked/f")
			asked("a move of a directory out", func() error { return d.Move(ctx, "d/asked/d", tmp, "outdir", none, none) })
			has(t, tmp, "outdir/g", "g")
			asked("a copy", func() error { _, err := tmp.Copy(ctx, "out", d, "d/asked/copy", none, none); return err })
			has(t, d, "d/asked/copy", "f")
			check.OK(t, tmp.Close())
			gone(t, s, 0)
		})
	}
}

// TestTempLinks: a link goes to a temporary directory and out of it with what it leads to, and not otherwise.
func TestTempLinks(t *testing.T) {
	at := t.TempDir()
	write(t, filepath.Join(at, "d", "in", "f"), "f")
	write(t, filepath.Join(at, "beside"), "beside")
	for name, target := range map[string]string{"d/l": "in/f", "alone": "beside", "out/l": "../beside", "far/l": "../../../beside"} {
		check.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(at, name)), 0o700))
		if err := os.Symlink(target, filepath.Join(at, name)); err != nil {
			t.Skip(err)
		}
	}
	s := started(t, &server.Server{Mounts: []server.Mount{
		{Path: "p", URL: server.PhysicalURL(at)}, {Path: "m", URL: "memory:"},
		{Path: "none", URL: server.PhysicalURL(t.TempDir()), Attenuation: server.Attenuation{NoLinks: true}}}})
	d, ctx, none := named(t, s, server.Guest{Name: "guest"}), t.Context(), vfs.If{}
	tmp := d.Temp()
	check.Is(t, "a link alone", d.Move(ctx, "p/alone", tmp, "l", none, none), vfs.Unsupported)
	check.Is(t, "one that leads out of what moves", d.Move(ctx, "p/out", tmp, "out", none, none), vfs.Outside)
	check.Is(t, "one that leads out of everything", d.Move(ctx, "p/far", tmp, "far", none, none), vfs.Outside)
	check.OK(t, d.Move(ctx, "p/d", tmp, "d", none, none))
	has(t, tmp, "d/l", "f")
	check.Is(t, "to where links are refused", tmp.Move(ctx, "d", d, "none/d", none, none), vfs.Denied)
	absent(t, d, "none/d")
	check.OK(t, tmp.Move(ctx, "d", d, "m/d", none, none))
	has(t, d, "m/d/l", "f")
}

// TestTempConforms holds a temporary directory of a guest to the contract of every store.
func TestTempConforms(t *testing.T) {
	t.Parallel()
	vfstest.Run(t, vfstest.Store{Remote: true, NoLinks: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir {
		s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: func(format string, args ...any) { t.Errorf("the host logs: "+format, args...) }}
		check.OK(t, s.Start(t.Context()))
		t.Cleanup(func() { check.OK(t, s.Close()) })
		given, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
		check.OK(t, err)
		conn, err := client.Dial(t.Context(), given.Locator)
		check.OK(t, err)
		t.Cleanup(func() { conn.Close() })
		tmp := conn.Dir(t.Context()).Temp()
		at := filepath.Join(s.State, "temps", "1")
		vfstest.Fill(t, tmp, tree,
			func(path, target string) error { return os.Symlink(target, filepath.Join(at, path)) },
			func(path string) error { return os.Chmod(filepath.Join(at, path), 0o700) })
		return tmp
	}})
}

// TestTempMoveUndone: what a move to or from a temporary directory changes in the tree can be undone there. What is in a temporary directory
// has no history.
func TestTempMoveUndone(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: server.PhysicalURL(t.TempDir())}}, Policy: server.Policy{Rules: []server.Rule{
		{Effect: operator.RuleAsk, Operations: []string{"move"}, Patterns: []string{"p/moves/**"}},
	}}})
	d, ctx, none := named(t, s, server.Guest{Name: "guest"}), t.Context(), vfs.If{}
	tmp := d.Temp()
	for _, path := range []string{"p/d", "p/d/e", "p/moves"} {
		made, err := d.CreateDir(ctx, path)
		check.OK(t, errors.Join(err, made.Close()))
	}
	for _, path := range []string{"p/d/f", "p/d/e/g", "p/moves/f"} {
		check.OK(t, puts(t, d, path, path))
	}
	check.OK(t, d.Move(ctx, "p/d", tmp, "d", none, none))
	page, err := d.History(ctx, vfs.PastQuery{Limit: 10})
	check.OK(t, err)
	removals := 0
	for removals < len(page.Entries) && page.Entries[removals].Changes[0].Op == "remove" {
		removals++
	}
	if removals != 4 {
		t.Errorf("a move of four nodes is %d removals: %+v", removals, page.Entries)
	}
	_, err = d.Undo(ctx, vfs.Undo{Last: removals})
	check.OK(t, err)
	has(t, d, "p/d/e/g", "p/d/e/g")
	check.OK(t, tmp.Move(ctx, "d", d, "p/d2", none, none))
	page, err = d.History(ctx, vfs.PastQuery{Limit: 1})
	check.OK(t, err)
	if len(page.Entries) != 1 || len(page.Entries[0].Changes) != 4 {
		t.Errorf("a move out is no one change: %+v", page.Entries)
	}
	_, err = d.Undo(ctx, vfs.Undo{Last: 1})
	check.OK(t, err)
	absent(t, d, "p/d2")
	_, err = tmp.History(ctx, vfs.PastQuery{Limit: 1})
	check.Is(t, "history there", err, vfs.Unsupported)
	_, err = tmp.Undo(ctx, vfs.Undo{Last: 1})
	check.Is(t, "undo there", err, vfs.Unsupported)
	// An approval because of the move alone cannot be asked for, whoever listens.
	defer s.Approvals().Listen()()
	check.OK(t, puts(t, tmp, "f", "f"))
	check.Is(t, "a move from where moves are asked about", d.Move(ctx, "p/moves/f", tmp, "moved", none, none), vfs.AskDenied)
	check.Is(t, "a move to there", tmp.Move(ctx, "f", d, "p/moves/g", none, none), vfs.AskDenied)
	_, err = tmp.Copy(ctx, "f", d, "p/moves/g", none, none)
	check.OK(t, err)
}
