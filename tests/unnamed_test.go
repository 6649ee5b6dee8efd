package tests

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/client"
	"capd/client/console"
	"capd/meter"
	"capd/operator"
	"capd/server"
	"capd/state"
	"capd/vfs"
)

// theirName is in the name of every other guest, and of nothing else.
const theirName = "zaphod"

// theOthers are the names of guests of every kind.
var theOthers = []string{theirName, "agent-run:talk:" + theirName, "extension:" + theirName, "automation:" + theirName, "person:" + theirName, "core:" + theirName}

// unnamed is a host with guests of every kind, and what a guest gets from it.
type unnamed struct {
	host *server.Server
	*testing.T
	console *console.Console
	codes   map[vfs.Code]bool // that the asker was answered
}

// TestNoGuestIsNamed: whatever a guest asks, and whatever other guests do meanwhile, the host sends it no byte of another's name. In
// the tree are directories and drafts that have the names of others, and they change, lock, ask for and share what the guest uses.
func TestNoGuestIsNamed(t *testing.T) {
	t.Parallel()
	u := newUnnamed(t)
	u.crowd()
	agent := u.grant(server.Guest{Name: "agent", BeyondDefault: true})
	u.asks(agent, "p/", "mem/", "tmp/", "ext/", "dl/", "draft/")
	u.conflicts(agent)
	u.guesses()
	u.shared()
	u.asks(u.grant(server.Guest{Name: "agent", Root: "draft"}), "draft/", "draft-draft/")
	u.asks(u.grant(server.Guest{Name: "agent", Root: "tmp"}), "")
	u.asks(u.grant(server.Guest{Name: "extension:lint", Root: "ext"}), "")
	u.requests()
	u.full()
	u.ends(agent)
	for _, code := range []vfs.Code{vfs.NotFound, vfs.Exists, vfs.Conflict, vfs.Denied, vfs.ReadOnly, vfs.Quota, vfs.Limit, vfs.Revoked} {
		if !u.codes[code] {
			t.Errorf("nothing was answered with %s", code)
		}
	}
}

func newUnnamed(t *testing.T) *unnamed {
	dir := t.TempDir()
	s := &server.Server{
		State: filepath.Join(dir, "state"), Logf: t.Logf,
		Mounts: []server.Mount{{Path: "mem", URL: "memory:", Attenuation: server.Attenuation{Bytes: 64 << 10}}, {Path: "dl", URL: "overlay:memory:"}},
		Roots: []server.Root{{ID: "p", Kind: operator.Workspace, Path: "p"}, {ID: "draft", Kind: operator.Workspace, Path: "draft", Access: operator.AccessRO},
			{ID: "dl", Kind: operator.Downloads, Path: "dl"}, {ID: "ext", Kind: operator.ExtensionStorage}, {ID: "tmp", Kind: operator.Temp}},
		Policy: server.Policy{Rules: []server.Rule{
			{Effect: operator.RuleDeny, Subject: theOthers[0], Operations: []string{"write"}, Patterns: []string{"p/theirs/**"}},
			{Effect: operator.RuleDeny, Operations: []string{"write"}, Patterns: []string{"p/denied"}},
		}},
	}
	for _, name := range []string{"p", "draft"} {
		ok(t, os.MkdirAll(filepath.Join(dir, name, ".git"), 0o700))
		ok(t, os.WriteFile(filepath.Join(dir, name, ".git", "config"), []byte("[core]"), 0o600))
		s.Mounts = append(s.Mounts, server.Mount{Path: name, URL: server.PhysicalURL(filepath.Join(dir, name))})
	}
	ok(t, s.Start(t.Context()))
	t.Cleanup(func() { ok(t, s.Close()) })
	c, err := console.Dial(t.Context(), state.Dir(s.State).Control())
	ok(t, err)
	t.Cleanup(func() { c.Close() })
	ok(t, c.AddHook(t.Context(), operator.Hook{Name: "lint", Before: true, Subject: theOthers[2]}, refusing{}))
	return &unnamed{s, t, c, map[vfs.Code]bool{}}
}

// refusing is a hook that lets no file pass that is called hooked.
type refusing struct{}

func (refusing) Before(_ context.Context, c operator.HookedChange) (operator.HookAnswer, string, error) {
	if strings.HasSuffix(c.Path, "hooked") {
		return operator.HookDeny, "not this one", nil
	}
	return operator.HookOK, "", nil
}

func (refusing) After(context.Context, operator.HookedChange, operator.HookOutcome) error { return nil }

// grant connects a guest that is told no name of another.
func (u *unnamed) grant(g server.Guest) *client.Dir {
	u.Helper()
	given, err := u.host.Grant(u.Context(), g)
	ok(u, err)
	return dial(u, given.Locator, theirName).Dir(u.Context())
}

func (u *unnamed) put(d *client.Dir, path, text string) error {
	_, err := d.Put(u.Context(), path, strings.NewReader(text), vfs.If{})
	return err
}

// crowd lets the others have directories, drafts and shares, change things and wait for approvals.
func (u *unnamed) crowd() {
	u.Cleanup(u.host.Approvals().Listen())
	for i, name := range theOthers {
		for _, root := range []string{"ext", "tmp", "dl", "draft", "p"} {
			given, err := u.host.Grant(u.Context(), server.Guest{Name: name, Root: root})
			if vfs.CodeOf(err) == vfs.Denied { // the defaults
				continue
			}
			ok(u, err)
			d := dial(u, given.Locator).Dir(u.Context())
			_ = u.put(d, "f", "text") // where it may
			_ = u.put(d, "draft-draft/f", "text")
		}
		all, err := u.host.Grant(u.Context(), server.Guest{Name: name, BeyondDefault: true})
		ok(u, err)
		conn := dial(u, all.Locator)
		d := conn.Dir(u.Context())
		ok(u, u.put(d, "p/both", strings.Repeat("x", i)))
		ok(u, u.put(d, "mem/both", "x"))
		go u.put(d, "p/.git/config", "theirs") // it waits until the test ends
		_, _, err = conn.Share(u.Context(), d.SubDir("p"))
		ok(u, err)
	}
	ok(u, u.put(u.grant(server.Guest{Name: "filler", Path: "mem"}), "full", strings.Repeat("x", 63<<10)))
	check := func() bool {
		list, err := u.host.Approvals().List(u.Context(), false, operator.Ask{})
		ok(u, err)
		return len(list) == len(theOthers)
	}
	if !waitFor(patience, check) {
		u.Fatal("the others do not wait for approvals")
	}
}

// answered notes the code of an error. The connection itself looks for names.
func (u *unnamed) answered(err error) { u.codes[vfs.CodeOf(err)] = true }

// asks calls what a Dir has, in d and in the directories of d that are given with a slash.
func (u *unnamed) asks(d *client.Dir, dirs ...string) {
	ctx := u.Context()
	for _, err := range d.Glob(ctx, "**") {
		u.answered(err)
	}
	for _, err := range d.Entries(ctx, true) {
		u.answered(err)
	}
	for _, dir := range append(dirs, "none/") {
		u.asksAt(d, dir)
	}
	_, err := d.Help(ctx, "")
	u.answered(err)
	_, err = d.Rights(ctx)
	u.answered(err)
}

// asksAt calls what is about a path, in a directory.
func (u *unnamed) asksAt(d *client.Dir, dir string) {
	ctx := u.Context()
	for _, name := range []string{"f", "both", "theirs/x", "denied", "hooked", "a/b"} {
		path := dir + name
		_, err := d.Walk(ctx, path, true)
		u.answered(err)
		text, _, err := d.OpenFile(path).ReadText(ctx)
		u.answered(err)
		u.answered(u.put(d, path, text))
		_, err = d.ReadOnly().OpenFile(path).Append(ctx, []byte("x"), vfs.If{})
		u.answered(err)
		_, err = d.CreateFile(ctx, path)
		u.answered(err)
		u.answered(d.Move(ctx, path, d, dir+"moved", vfs.If{}, vfs.If{}))
		u.answered(d.RemovePath(ctx, path, vfs.If{Absent: true}))
		for _, right := range []client.Rights{client.Read, client.Write, client.Delete, client.List, client.Metadata, client.Move} {
			x, err := d.Explain(ctx, right, path, map[bool]string{true: dir + "moved"}[right == client.Move])
			u.answered(err)
			if err == nil && len(x.Reasons) == 0 {
				u.Errorf("%v of %s is not explained", right, path)
			}
		}
	}
	u.answered(u.put(d, dir+"long", strings.Repeat("x", 100<<10)))
}

// conflicts lets others change, and lock, what a guest has looked at, and has it wait for approvals beside them.
func (u *unnamed) conflicts(d *client.Dir) {
	ctx := u.Context()
	_, v, err := d.OpenFile("p/both").ReadText(ctx)
	ok(u, err)
	for i, name := range theOthers {
		given, err := u.host.Grant(ctx, server.Guest{Name: name, BeyondDefault: true})
		ok(u, err)
		other := dial(u, given.Locator).Dir(ctx)
		ok(u, u.put(other, "p/both", strings.Repeat("y", i+1)))
		_, err = d.Put(ctx, "p/both", strings.NewReader("mine"), vfs.If{Is: v})
		is(u, "after a change by another", err, "conflict")
		u.answered(err)
		_, err = u.host.SetWritable(name, i%2 == 0)
		ok(u, err)
	}
	within, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	_, err = d.Put(within, "p/.git/config", strings.NewReader("mine"), vfs.If{})
	u.answered(err)
	cancel()
	u.decided(d)
	_, err = u.host.SetWritable("agent", false)
	ok(u, err)
	u.answered(u.put(d, "p/locked", "x"))
	_, err = u.host.SetWritable("agent", true)
	ok(u, err)
	u.answered(d.Move(ctx, "p/both", d, "mem/f", vfs.If{}, vfs.If{}))
}

// decided has a change of the guest decided about, while others wait for the same file.
func (u *unnamed) decided(d *client.Dir) {
	for i, v := range []operator.Verdict{{Answer: operator.Deny, Reason: "not now"}, {Answer: operator.Once}} {
		ended, size := make(chan error, 1), 20+i
		go func() { ended <- u.put(d, "p/.git/config", strings.Repeat("x", size)) }()
		var own []operator.Ask
		if !waitFor(patience, func() bool {
			list, err := u.host.Approvals().List(u.Context(), false, operator.Ask{})
			ok(u, err)
			own = slices.DeleteFunc(list, func(a operator.Ask) bool { return a.Guest != "agent" || a.Size != int64(size) })
			return len(own) == 1
		}) {
			u.Fatal("the guest's change does not wait")
		}
		_, err := u.host.Approvals().Decide(own[0].ID, v, "person:"+theirName)
		ok(u, err)
		u.answered(<-ended)
	}
}

// guesses compares what a guest is answered that asks for the directories of others with what it is answered about nobody's.
func (u *unnamed) guesses() {
	given, err := u.host.Grant(u.Context(), server.Guest{Name: "agent", BeyondDefault: true})
	ok(u, err)
	d := dial(u, given.Locator).Dir(u.Context())
	for _, dir := range []string{"ext/extension+", "tmp/person+", "dl/", "scopes/draft/"} {
		var answers []string
		for _, name := range []string{theirName, "nobody"} {
			_, err := d.Walk(u.Context(), dir+name+"/f", true)
			x, explained := d.Explain(u.Context(), client.Read, dir+name, "")
			answers = append(answers, strings.ReplaceAll(fmt.Sprint(err, u.put(d, dir+name, "x"), x, explained), name, "NAME"))
		}
		if answers[0] != answers[1] {
			u.Errorf("%s of another is %s, and of nobody %s", dir, answers[0], answers[1])
		}
	}
}

// shared is about what a guest got from others, and what it gives to others.
func (u *unnamed) shared() {
	ctx := u.Context()
	for _, name := range theOthers[:times(1, len(theOthers))] {
		given, err := u.host.Grant(ctx, server.Guest{Name: name, Path: "p", BeyondDefault: true})
		ok(u, err)
		theirs := dial(u, given.Locator)
		_, loc, revoker, err := theirs.ShareOn(ctx, theirs.Dir(ctx), client.ShareTerms{StoredBytes: 100})
		ok(u, err)
		conn := dial(u, loc, theirName)
		d := conn.Dir(ctx)
		u.asks(d, "")
		for range 3 {
			id, again, _, err := conn.ShareOn(ctx, d.SubDir("theirs"), client.ShareTerms{})
			u.answered(err)
			_, _, _, err = conn.ShareOn(ctx, d, client.ShareTerms{})
			u.answered(err)
			all, err := conn.Shares(ctx, d)
			u.answered(err)
			if again != "" {
				dial(u, again, theirName).Dir(ctx).Rights(ctx)
			}
			if len(all) > 0 {
				u.answered(conn.RevokeShare(ctx, d, all[0].ID))
			}
			u.answered(conn.RevokeShare(ctx, d, id))
		}
		ok(u, revoker.Revoke(ctx))
		u.answered(u.put(d, "f", "x"))
		_, err = dial(u, loc, theirName).Dir(ctx).Rights(ctx)
		u.answered(err)
	}
}

// requests is about what a guest asks for while others ask for the same.
func (u *unnamed) requests() {
	ctx := u.Context()
	ask := func(p *client.Petitioner, root string) error {
		within, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := p.RequestDir(ctx, root, client.Read|client.List, "because").Stat(within)
		return err
	}
	for _, name := range append(theOthers, "agent") {
		invited, err := u.host.Invite(ctx, name, server.InviteTerms{})
		ok(u, err)
		forbidden := []string{theirName}
		if name != "agent" {
			forbidden = nil
		}
		p := dial(u, invited.Locator, forbidden...).Petitioner(ctx)
		_, err = p.Roots(ctx)
		ok(u, err)
		for _, root := range []string{"p", "p", "draft", "ext", "tmp/x", "none", "p/f"} {
			if err := ask(p, root); name == "agent" {
				u.answered(err)
			}
		}
	}
}

// full lets a guest share more than it may.
func (u *unnamed) full() {
	given, err := u.host.Grant(u.Context(), server.Guest{Name: "agent", Path: "p", Limits: server.Limits{meter.Shares: 1}})
	ok(u, err)
	conn := dial(u, given.Locator, theirName)
	for range 2 {
		_, _, err := conn.Share(u.Context(), conn.Dir(u.Context()))
		u.answered(err)
	}
}

// ends takes back what a guest has while others have the same.
func (u *unnamed) ends(d *client.Dir) {
	f := d.OpenFile("p/both")
	_, err := f.Stat(u.Context())
	u.answered(err)
	for _, name := range append(theOthers, "agent") {
		_, err := u.host.Revoke(name)
		ok(u, err)
	}
	_, err = f.ReadAt(u.Context(), make([]byte, 1), 0)
	if err != io.EOF {
		u.answered(err)
	}
	u.answered(u.put(d, "p/f", "x"))
}
