package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/meter"
	"capd/operator"
	"capd/server"
	"capd/vfs"
	"capd/vfs/step"
	"capd/vfs/vfstest/check"
)

// TestTempsInALoop: a guest makes temporary directories as fast as it can, and lets go of each at once, of some of them with calls under way.
func TestTempsInALoop(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: silent(t)}
	check.OK(t, s.Start(t.Context()))
	defer func() { check.OK(t, s.Close()) }()
	d := named(t, s, server.Guest{Name: "guest"})
	rounds := 2000
	if os.Getenv("CAPD_CI") != "" {
		rounds = 100_000
	}
	ctx, begun, made, refused := t.Context(), time.Now(), 0, 0
	before := runtime.NumGoroutine()
	for i := range rounds {
		tmp := d.Temp()
		var err error
		switch i % 3 {
		case 0:
			err = puts(t, tmp, "f", "x")
		case 1:
			_, err = tmp.Stat(ctx)
		case 2: // it is dropped before it is there
		}
		check.OK(t, tmp.Close())
		switch vfs.CodeOf(err) {
		case "":
			made++
		case vfs.Limit:
			refused++
		default:
			t.Fatal(err)
		}
		if n := len(temporary(t, s)); n > 64+1 {
			t.Fatalf("%d are on disk", n)
		}
	}
	gone(t, s, 0)
	check.Eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+5 })
	for _, k := range []meter.Kind{meter.StoredBytes, meter.StoredNodes, meter.StagedBytes} {
		if n := usedBy(s, k); n != 0 {
			t.Errorf("%d of %v are counted", n, k)
		}
	}
	t.Logf("%d temporary directories in %v, %d refused", made, time.Since(begun).Round(time.Millisecond), refused)
	if made == 0 {
		t.Error("vacuous: none was made")
	}
}

// TestTempNotShared: whatever a guest derives from a temporary directory, nobody else gets it, and it ends with the connection.
func TestTempNotShared(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}})
	given, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
	check.OK(t, err)
	ctx := t.Context()
	dial := func() *client.Conn {
		conn, err := client.Dial(ctx, given.Locator)
		check.OK(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	conn := dial()
	tmp := conn.Dir(ctx).Temp()
	made, err := tmp.CreateDir(ctx, "d")
	check.OK(t, errors.Join(err, made.Close()))
	check.OK(t, puts(t, tmp, "d/f", "f"))
	check.OK(t, puts(t, tmp, "f", "f"))
	behind, revoker := tmp.Revocable()
	below, _ := tmp.SubDir("d").Revocable()
	file, err := below.Walk(ctx, "f", false)
	check.OK(t, err)
	nodes := map[string]vfs.Node{
		"itself": tmp, "read-only": tmp.ReadOnly(), "with fewer rights": tmp.Narrow(client.Read | client.List), "below": tmp.SubDir("d"),
		"behind a Revoker": behind, "below one": below, "a file below one": file, "of a turn": tmp.Turn("turn"), "a file": tmp.OpenFile("f"),
		"all of that": below.Turn("turn").Narrow(client.AllRights &^ client.Delete).ReadOnly(), "in another": tmp.Temp(),
	}
	for what, n := range nodes {
		_, _, err := conn.Share(ctx, n)
		check.Is(t, "sharing "+what, err, vfs.Denied)
	}
	// Another connection of the same guest cannot use it.
	other := dial()
	d := other.Dir(ctx)
	check.OK(t, puts(t, d, "m/f", "f"))
	if err := d.Move(ctx, "m/f", tmp, "x", vfs.If{}, vfs.If{}); err == nil {
		t.Error("another connection moves to it")
	}
	has(t, d, "m/f", "f")
	check.OK(t, revoker.Revoke(ctx))
	check.Is(t, "behind a Revoker that was used", puts(t, behind, "g", "g"), vfs.Revoked)
	check.OK(t, puts(t, tmp, "g", "g"))
	check.OK(t, conn.Close())
	gone(t, s, 0)
}

// TestTempWithin: a temporary directory in a temporary directory, and moves of what is there into itself.
func TestTempWithin(t *testing.T) {
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "m", URL: "memory:"}}})
	conn := must(client.Dial(t.Context(), must(s.Grant(t.Context(), server.Guest{Name: "guest"})).Locator))
	defer conn.Close()
	top, ctx, none := conn.Dir(t.Context()), t.Context(), vfs.If{}
	tmp := top.Temp()
	for _, path := range []string{"d", "d/e"} {
		made, err := tmp.CreateDir(ctx, path)
		check.OK(t, errors.Join(err, made.Close()))
	}
	check.OK(t, puts(t, tmp, "d/f", "f"))
	check.Is(t, "into itself", tmp.Move(ctx, "d", tmp, "d/e/d", none, none), vfs.Invalid)
	below := tmp.SubDir("d/e")
	check.Is(t, "into itself by another capability", tmp.Move(ctx, "d", below, "d", none, none), vfs.Invalid)
	check.OK(t, below.Close())
	has(t, tmp, "d/f", "f")
	inner := tmp.Temp()
	check.OK(t, tmp.Move(ctx, "d", inner, "d", none, none))
	has(t, inner, "d/f", "f")
	// Only the innermost of a chain is held: all that it came from stays counted, as what it is behind does.
	chain := inner
	for range 20 {
		next := chain.Temp()
		_, err := next.Stat(ctx)
		check.OK(t, err)
		if chain != inner {
			check.OK(t, chain.Close())
		}
		chain = next
	}
	check.OK(t, errors.Join(inner.Close(), tmp.Close()))
	check.OK(t, puts(t, chain, "f", "f"))
	for {
		next := chain.Temp()
		_, err := next.Stat(ctx)
		if err != nil {
			check.Is(t, "one too many", err, vfs.Limit)
			break
		}
		chain = next
	}
	if n := len(temporary(t, s)); n > 64 {
		t.Errorf("%d were made", n)
	}
	check.OK(t, conn.Close())
	gone(t, s, 0)
	if n := usedBy(s, meter.StoredNodes); n != 0 {
		t.Errorf("%d nodes are counted", n)
	}
}

// TestTempRemoved: nothing that a guest makes in a temporary directory keeps it from being removed.
func TestTempRemoved(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: silent(t)}
	check.OK(t, s.Start(t.Context()))
	defer func() { check.OK(t, s.Close()) }()
	d := named(t, s, server.Guest{Name: "guest"})
	ctx, none := t.Context(), vfs.If{}
	mkdir := func(d *client.Dir, path string) error {
		made, err := d.CreateDir(ctx, path)
		if err != nil {
			return err
		}
		return made.Close()
	}
	deepest := func(tmp *client.Dir) (path string) {
		for path = "a"; mkdir(tmp, path) == nil; path += "/a" {
		}
		path = strings.TrimSuffix(path, "/a")
		return path
	}
	off := false
	for name, make := range map[string]func(tmp *client.Dir){
		"as deep as it can be": func(tmp *client.Dir) {
			path := deepest(tmp)
			t.Logf("%d levels deep", strings.Count(path, "/")+1)
			check.OK(t, tmp.Move(ctx, "a", tmp, "b", none, none))
			deepest(tmp)
			if err := tmp.Move(ctx, "b", tmp, path+"/b", none, none); err == nil {
				t.Error("a path is twice as deep")
			}
			_ = tmp.Move(ctx, "b", tmp, path[:len(path)/2]+"a", none, none)
		},
		"wide": func(tmp *client.Dir) {
			for i := range 1500 {
				check.OK(t, mkdir(tmp, fmt.Sprint("d", i)))
			}
		},
		"names that removal uses": func(tmp *client.Dir) {
			for i := range 20 {
				check.OK(t, puts(t, tmp, fmt.Sprint("moved-", i), ""))
				check.OK(t, mkdir(tmp, fmt.Sprint("d", i)))
				check.OK(t, mkdir(tmp, fmt.Sprintf("d%d/moved-%d", i, i)))
				check.OK(t, puts(t, tmp, fmt.Sprintf("d%d/moved-%d/f", i, i), ""))
			}
		},
		"names of all kinds": func(tmp *client.Dir) {
			for _, name := range []string{"-rf", "~", "*", "$HOME", "a b", "界", strings.Repeat("x", 255), "lost+found", "1", "temps"} {
				check.OK(t, puts(t, tmp, name, ""))
			}
		},
		"attributes": func(tmp *client.Dir) {
			check.OK(t, mkdir(tmp, "d"))
			check.OK(t, puts(t, tmp, "d/f", ""))
			sub, f := tmp.OpenFile("d"), tmp.OpenFile("d/f")
			defer sub.Close()
			defer f.Close()
			if err := sub.SetAttributes(ctx, vfs.Attributes{Exec: &off}, none); err == nil {
				t.Error("a directory cannot be entered any more")
			}
			check.OK(t, f.SetAttributes(ctx, vfs.Attributes{Exec: &off}, none))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := d.Temp()
			make(tmp)
			begun := time.Now()
			check.OK(t, tmp.Close())
			gone(t, s, 0)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it takes %v", took)
			}
			if n := usedBy(s, meter.StoredNodes); n != 0 {
				t.Errorf("%d nodes are counted", n)
			}
		})
	}
}

// TestTempManyGuests: guests with temporary directories come and go at once, and the host ends in the middle.
func TestTempManyGuests(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: silent(t)}
	check.OK(t, s.Start(t.Context()))
	given, err := s.Grant(t.Context(), server.Guest{Name: "guest"})
	check.OK(t, err)
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			for {
				conn, err := client.Dial(context.Background(), given.Locator)
				if err != nil {
					ended <- nil
					return
				}
				d := conn.Dir(context.Background())
				for range 10 {
					tmp := d.Temp()
					_, err = tmp.Put(context.Background(), "f", strings.NewReader("x"), vfs.If{})
				}
				conn.Close()
				if vfs.CodeOf(err) == vfs.Internal {
					ended <- err
					return
				}
			}
		}()
	}
	time.Sleep(300 * time.Millisecond)
	check.OK(t, s.Close())
	if left := temporary(t, s); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	for range cap(ended) {
		check.OK(t, <-ended)
	}
}

// TestTempChangesAtOnce: guests change as much as one change may in their temporary directories, at once. None keeps another from it.
func TestTempChangesAtOnce(t *testing.T) {
	s := &server.Server{State: filepath.Join(t.TempDir(), "state"), Logf: silent(t)}
	check.OK(t, s.Start(t.Context()))
	defer func() { check.OK(t, s.Close()) }()
	ctx, big := t.Context(), strings.Repeat("x", 30<<20)
	var all []*client.Dir
	for i := range 4 {
		tmp := named(t, s, server.Guest{Name: fmt.Sprint("guest", i)}).Temp()
		check.OK(t, puts(t, tmp, "a", big))
		check.OK(t, puts(t, tmp, "b", big))
		all = append(all, tmp)
	}
	ended := make(chan error, len(all))
	for _, tmp := range all {
		go func() {
			ended <- tmp.Change(ctx, []step.Step{{Verb: step.Remove, Path: "a"}, {Verb: step.Remove, Path: "b"}, {Path: "new", Data: []byte("new")}}, false)
		}()
	}
	for range all {
		check.OK(t, <-ended)
	}
	for _, tmp := range all {
		has(t, tmp, "new", "new")
		absent(t, tmp, "a")
	}
}

// TestTempMoveBelow: a rule about something that a directory holds is not got around by moving the directory to a temporary directory, nor
// by moving one there that holds something of that name. The guest may not delete, which a rule about moves need not care about.
func TestTempMoveBelow(t *testing.T) {
	var rules []server.Rule
	for _, right := range []string{"move", "read", "list", "delete", "write"} {
		rules = append(rules, server.Rule{Effect: operator.RuleDeny, Operations: []string{right}, Patterns: []string{"p/" + right + "/sub/**", "p/new-" + right + "/sub/**"}})
	}
	rules = append(rules, server.Rule{Effect: operator.RuleAsk, Operations: []string{"move"}, Patterns: []string{"p/ask/sub/**", "p/new-ask/sub/**"}})
	at := t.TempDir()
	s := started(t, &server.Server{Mounts: []server.Mount{{Path: "p", URL: server.PhysicalURL(at)}}, Policy: server.Policy{Rules: rules}})
	defer s.Approvals().Listen()()
	d, ctx, none := named(t, s, server.Guest{Name: "guest"}).Narrow(client.AllRights&^client.Delete), t.Context(), vfs.If{}
	tmp := d.Temp()
	for name, want := range map[string]struct{ out, in vfs.Code }{
		"move": {vfs.Denied, vfs.Denied}, "read": {out: vfs.Denied}, "list": {out: vfs.Denied}, "delete": {out: vfs.Denied}, "write": {in: vfs.Denied},
		"ask": {vfs.AskDenied, vfs.AskDenied},
	} {
		write(t, filepath.Join(at, name, "sub", "deep", "f"), name)
		check.Is(t, name+": a move to a temporary directory", d.Move(ctx, "p/"+name, tmp, name, none, none), want.out)
		if want.out != "" {
			text, err := os.ReadFile(filepath.Join(at, name, "sub", "deep", "f"))
			if err != nil || string(text) != name {
				t.Errorf("%s: there is %q, %v", name, text, err)
			}
			absent(t, tmp, name)
		}
		for _, path := range []string{"of-" + name, "of-" + name + "/sub", "of-" + name + "/sub/deep"} {
			made, err := tmp.CreateDir(ctx, path)
			check.OK(t, errors.Join(err, made.Close()))
		}
		check.OK(t, puts(t, tmp, "of-"+name+"/sub/deep/f", name))
		got := vfs.CodeOf(tmp.Move(ctx, "of-"+name, d, "p/new-"+name, none, none))
		if want.in != "" && got != want.in {
			t.Errorf("%s: a move from a temporary directory: %q, want %q", name, got, want.in)
		}
		if _, err := os.Stat(filepath.Join(at, "new-"+name)); (err == nil) != (got == "") {
			t.Errorf("%s: the move answered %q, and there is: %v", name, got, err)
		}
	}
}
