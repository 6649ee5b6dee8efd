package tests

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/membrane"
)

// rootCell is what docs/roots.md says that a kind of subject gets in a kind of root.
type rootCell struct {
	rights     membrane.Rights
	own, named bool
}

// rootTable reads the table of docs/roots.md: what is in it by the kind of root and the kind of subject.
func rootTable(t *testing.T) map[string]map[string]rootCell {
	text, err := os.ReadFile("../docs/roots.md")
	ok(t, err)
	var kinds []string
	table := map[string]map[string]rootCell{}
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range words {
			words[i] = strings.TrimSpace(words[i])
		}
		switch {
		case words[0] == "root":
			kinds = words[1:]
		case strings.HasPrefix(line, "| `") && len(words) == len(kinds)+1:
			line := map[string]rootCell{}
			for i, word := range words[1:] {
				if word == "as an agent-run" {
					line[kinds[i]] = line[operator.AgentRun]
					continue
				}
				line[kinds[i]] = cellOf(t, word)
			}
			table[strings.Trim(words[0], "`")] = line
		}
	}
	if len(table) != len(operator.RootKinds()) || len(kinds) != len(operator.SubjectKinds()) {
		t.Fatalf("the table has %d kinds of roots, and %q", len(table), kinds)
	}
	return table
}

func cellOf(t *testing.T, word string) (c rootCell) {
	word, c.own = strings.CutSuffix(word, ", in a directory of its own")
	word, c.named = strings.CutSuffix(word, ", if the grant names the root")
	if word == "nothing" {
		return c
	}
	var err error
	c.rights, err = membrane.ParseRights(strings.ReplaceAll(word, ", ", ","))
	ok(t, err)
	return c
}

// TestRootKinds holds the host to docs/roots.md. It grants every right by itself to every kind of subject in every kind of root, and
// then tries over the wire what it allows.
func TestRootKinds(t *testing.T) {
	t.Parallel()
	table, dir := rootTable(t), t.TempDir()
	s := &server.Server{State: filepath.Join(dir, "state"), Logf: t.Logf}
	for _, kind := range operator.RootKinds() {
		r := server.Root{ID: kind, Kind: kind, Path: kind}
		if kind == operator.Temp {
			r.Path = ""
		} else {
			ok(t, os.Mkdir(filepath.Join(dir, kind), 0o700))
			url := server.PhysicalURL(filepath.Join(dir, kind))
			if kind == operator.Downloads {
				url = "overlay:" + url
			}
			s.Mounts = append(s.Mounts, server.Mount{Path: kind, URL: url})
		}
		s.Roots = append(s.Roots, r)
	}
	ok(t, s.Start(t.Context()))
	t.Cleanup(func() { ok(t, s.Close()) })
	all := connectAs(t, s, server.Guest{Name: "core:all"})
	tried := 0
	for kind, line := range table {
		for subject, c := range line {
			guest := server.Guest{Name: subject + ":x", Root: kind}
			seed(t, s, all, guest)
			for _, name := range membrane.AllRights.Names() {
				guest.Rights, _ = membrane.ParseRights(name)
				g, err := s.Grant(t.Context(), guest)
				if may := c.rights&guest.Rights != 0; may != (err == nil) || !may && vfs.CodeOf(err) != vfs.Denied {
					t.Errorf("%s for %s in %s: %v; the table says %v", name, subject, kind, err, may)
				}
				if err != nil {
					continue
				}
				if own := strings.Contains(g.Path, "/"); own != c.own || g.Root != kind {
					t.Errorf("%s in %s is at %q in %q, want one of its own: %v", subject, kind, g.Path, g.Root, c.own)
				}
				tries(t, dial(t, g.Locator).Dir(t.Context()), guest, kind)
				tried++
				_, err = s.Revoke(g.ID)
				ok(t, err)
			}
			byPath := server.Guest{Name: subject + ":x", Path: kind, Rights: membrane.Metadata}
			_, err := s.Grant(t.Context(), byPath)
			if may := c.rights&membrane.Metadata != 0 && !c.own && !c.named; may != (err == nil) {
				t.Errorf("the path of %s for %s: %v; the table says %v", kind, subject, err, may)
			}
		}
	}
	t.Logf("%d grants tried over the wire", tried)
}

func connectAs(t *testing.T, s *server.Server, guest server.Guest) *client.Dir {
	g, err := s.Grant(t.Context(), guest)
	ok(t, err)
	return dial(t, g.Locator).Dir(t.Context())
}

// seed puts the files that tries works on where guest is granted something.
func seed(t *testing.T, s *server.Server, all *client.Dir, guest server.Guest) {
	g, err := s.Grant(t.Context(), guest)
	if vfs.CodeOf(err) == vfs.Denied {
		return
	}
	ok(t, err)
	for _, name := range []string{"f", "gone", "moved"} {
		_, err := vfs.Put(t.Context(), all, g.Path+"/"+name, strings.NewReader("text"), vfs.If{})
		ok(t, err)
	}
}

// tries checks what d, which has one right, can do.
func tries(t *testing.T, d *client.Dir, guest server.Guest, kind string) {
	t.Helper()
	ctx, has := t.Context(), guest.Rights
	if got, err := d.Rights(ctx); err != nil || got != has {
		t.Errorf("%s in %s has %v, %v; want %v", guest.Name, kind, got, err, has)
	}
	for right, do := range map[membrane.Rights]func() error{
		membrane.Read:     func() error { return readsFirst(ctx, d) },
		membrane.Write:    func() error { _, err := d.Replace(ctx, "new", strings.NewReader("x"), vfs.If{}); return err },
		membrane.Delete:   func() error { return unlessMissing(d.Remove(ctx, "gone", vfs.If{})) },
		membrane.List:     func() error { _, err := vfs.Any(ctx, d, func(vfs.Entry) bool { return true }); return err },
		membrane.Metadata: func() error { _, err := vfs.StatAt(ctx, d, "f", false); return err },
		membrane.Move:     func() error { return d.Rename(ctx, "moved", d, "there", vfs.If{}, vfs.If{}) },
	} {
		want := vfs.Denied
		if right&membrane.ChangeRights != 0 {
			want = vfs.ReadOnly
		}
		switch err := do(); {
		case right == membrane.Move: // needs read and write too
			if err == nil {
				t.Errorf("%s in %s moves, with %v alone", guest.Name, kind, has)
			}
		case right == has && err != nil:
			t.Errorf("%v by %s in %s: %v", right, guest.Name, kind, err)
		case right != has && vfs.CodeOf(err) != want:
			t.Errorf("%v by %s in %s, with %v alone: %v, want %v", right, guest.Name, kind, has, err, want)
		}
	}
}

func readsFirst(ctx context.Context, d *client.Dir) error {
	n, err := d.Lookup(ctx, "f")
	if err != nil {
		return err
	}
	defer n.Close()
	_, err = n.(vfs.File).ReadAt(ctx, make([]byte, 1), 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

func unlessMissing(err error) error {
	if vfs.CodeOf(err) == vfs.NotFound {
		return nil
	}
	return err
}
