package server_test

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/client/console"
	"capd/meter"
	"capd/operator"
	"capd/record"
	"capd/server"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// Methods of an operator that change nothing that the record is about, and those that tests of other packages call.
const (
	operatorLooks = `Console.list Console.status Console.usage Console.explain Console.history Console.virtualFs Console.control Console.help Console.roots Console.policy
		Console.policies Console.hooks Console.invites Console.asks Console.showAsk Console.approvals Console.events Console.checkpoint
		VirtualFs.mounts VirtualFs.diff VirtualFs.root VirtualFs.snapshot VirtualFs.help VirtualFs.materialize
		Materialized.changes Materialized.path Materialized.help
		DirControl.getWritable DirControl.getReadable DirControl.getChild DirControl.help FileControl.getWritable FileControl.getReadable FileControl.help Progress.report`
	calledElsewhere = `Console.invite Console.revokeInvite Console.addHook Console.removeHook Hook.before Hook.after FileControl.setWritable FileControl.setReadable FileControl.revoke`
)

// TestEveryKindIsRecorded: each call of an operator that changes something leaves its entry, with its paths and versions. A new method
// fails until somebody says what it does.
func TestEveryKindIsRecorded(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	below := t.TempDir()
	s, con, d := ruledHost(t, dir+"/state", server.Rule{Effect: operator.RuleAsk, Operations: []string{"write"}, Patterns: []string{"m/ask"}})
	defer s.Approvals().Listen()()
	fs, err := con.VirtualFs(ctx)
	check.OK(t, err)
	t.Cleanup(func() { fs.Close() })
	path := "draft"
	var applied operator.Applied
	calls := []struct {
		method, leaves string
		do             func() error
	}{
		{"VirtualFs.mount", "mounted draft", func() error {
			return fs.Mount(ctx, path, "overlay:"+server.PhysicalURL(below), operator.Attenuation{})
		}},
		{"", "mkdir draft/d", func() error { return made(t, fs, path+"/d") }}, // the host's own tree
		{"VirtualFs.apply", "apply draft d", func() (err error) {
			applied, err = fs.Apply(ctx, path, operator.ApplyOptions{}, nil)
			return err
		}},
		{"VirtualFs.undo", "undo draft d", func() error { return fs.Undo(ctx, path, applied.ID) }},
		{"", "mkdir draft/e", func() error { return made(t, fs, path+"/e") }},
		{"VirtualFs.revert", "revert draft d e", func() error { _, err := fs.Revert(ctx, path, nil); return err }},
		{"VirtualFs.unmount", "unmounted draft", func() error { return fs.Unmount(ctx, path) }},
		{"", "replace m/f", func() error { _, err := vfs.Put(ctx, d, "f", strings.NewReader("text"), vfs.If{}); return err }},
		{"Console.undo", "remove m/f", func() error { _, err := con.Past("agent").Undo(ctx, vfs.Undo{Last: 1}); return err }},
		{"", "replace m/f", func() error { _, err := vfs.Put(ctx, d, "f", strings.NewReader("text"), vfs.If{}); return err }},
		{"Materialized.sync", "sync m f", func() error { return synced(t, fs) }},
		{"VirtualFs.commit", "commit repo new", func() error { return committed(t, fs) }},
		{"Console.decide", "decided m/ask always", func() error { return approved(t, con, d) }},
		{"Console.endApproval", "decided m/ask ended", func() error {
			all, err := con.Approvals(ctx)
			check.OK(t, err)
			return con.EndApproval(ctx, all[0].ID)
		}},
		{"Console.setWritable", "locked m changes", func() error { _, err := con.SetWritable(ctx, "agent", false); return err }},
		{"Console.setLimits", "terms m", func() error { _, err := con.SetLimits(ctx, "agent", meter.Limits{meter.Nodes: 100}); return err }},
		{"Console.setPolicy", "policy ", func() error {
			p, err := con.Policy(ctx)
			check.OK(t, err)
			_, err = con.SetPolicy(ctx, `[{"effect": "deny", "patterns": ["m/x"]}]`, p.Hash)
			return err
		}},
		{"Console.grant", "granted m", func() error { _, _, _, err := con.Grant(ctx, "other", "m", false); return err }},
		{"Console.revoke", "revoked m", func() error { _, err := con.Revoke(ctx, "other"); return err }},
		{"DirControl.setWritable", "locked m", func() error {
			return controlled(t, con, func(c *console.Control) error { return c.SetWritable(ctx, true) })
		}},
		{"DirControl.setReadable", "locked m reads", func() error {
			return controlled(t, con, func(c *console.Control) error { return c.SetReadable(ctx, false) })
		}},
		{"DirControl.revoke", "revoked m", func() error { return controlled(t, con, func(c *console.Control) error { return c.Revoke(ctx) }) }},
	}
	_, from, _, err := con.Events(ctx, math.MaxUint64, 0)
	check.OK(t, err)
	listed := slices.Concat(strings.Fields(operatorLooks), strings.Fields(calledElsewhere))
	for _, c := range calls {
		if c.method != "" {
			listed = append(listed, c.method)
		}
		check.OK(t, c.do())
		left := leftSince(t, con, &from)
		if !slices.Contains(left, c.leaves) {
			t.Errorf("%s left %q, want %q", c.method, left, c.leaves)
		}
	}
	slices.Sort(listed)
	if all := operatorMethods(t); !slices.Equal(all, listed) {
		t.Errorf("the schema has\n%q, and listed is\n%q", all, listed)
	}
}

func made(t *testing.T, fs *console.VirtualFs, path string) error {
	d, ctl, err := fs.Root(t.Context())
	check.OK(t, err)
	defer ctl.Close()
	defer d.Close()
	return mkdir(t, d, path)
}

func mkdir(t *testing.T, d vfs.Dir, path string) error {
	in, name, release, err := vfs.WalkParent(t.Context(), d, path)
	check.OK(t, err)
	defer release()
	n, err := in.Mkdir(t.Context(), name)
	if err == nil {
		n.Close()
	}
	return err
}

// synced copies m, changes the copy and brings the change back.
func synced(t *testing.T, fs *console.VirtualFs) error {
	tree, err := fs.Materialize(t.Context(), "m", operator.Bounds{}, nil)
	check.OK(t, err)
	defer tree.Close()
	check.OK(t, os.WriteFile(tree.Path()+"/f", []byte("changed"), 0o600))
	_, _, err = tree.Sync(t.Context(), nil)
	return err
}

// committed commits a new file in a repository.
func committed(t *testing.T, fs *console.VirtualFs) error {
	project, _, clean := scene()
	t.Cleanup(clean)
	check.OK(t, fs.Mount(t.Context(), "repo", "git:"+project+"?writable#main", operator.Attenuation{}))
	d, ctl, err := fs.Root(t.Context())
	check.OK(t, err)
	defer ctl.Close()
	defer d.Close()
	check.OK(t, check.Put(t.Context(), d, "repo/new", "text"))
	_, err = fs.Commit(t.Context(), "repo", operator.Commit{Ref: "next", Message: "new", Author: "Ada", Email: "ada@example.org"})
	return err
}

// approved puts a file that needs an approval, which is given for now.
func approved(t *testing.T, con *console.Console, d vfs.Dir) error {
	done := make(chan error, 1)
	go func() { done <- check.Put(t.Context(), d, "ask", "text") }()
	var all []operator.Ask
	check.Eventually(t, "it waits", func() bool {
		all, _ = con.Asks(t.Context(), false)
		return len(all) == 1
	})
	_, err := con.Decide(t.Context(), all[0].ID, operator.Verdict{Answer: operator.Always})
	return cmp.Or(err, <-done)
}

func controlled(t *testing.T, con *console.Console, do func(*console.Control) error) error {
	c, err := con.Control(t.Context(), "g1")
	check.OK(t, err)
	defer c.Close()
	return do(c)
}

// leftSince returns what the record has since *from: the operation or the kind, the path, and what else it is about.
func leftSince(t *testing.T, con *console.Console, from *uint64) (all []string) {
	t.Helper()
	events, next, _, err := con.Events(t.Context(), *from, 0)
	check.OK(t, err)
	*from = next
	for _, event := range events {
		var e record.Entry
		check.OK(t, json.Unmarshal(event.Entry, &e))
		if e.Kind == record.Ended {
			if e.Result != record.Done {
				t.Errorf("%+v", e)
			}
			continue
		}
		words := []string{e.Op, string(e.Path)}
		if e.Kind != record.Intended {
			words[0] = e.Kind.String()
		}
		if e.Answer != "" {
			words = append(words, e.Answer)
		}
		for _, c := range e.Changes {
			words = append(words, string(c.Path))
			if e.Op == "sync" && (c.Was == c.Version || len(c.Was) != 64 || len(c.Version) != 64) {
				t.Errorf("%+v", c)
			}
		}
		all = append(all, strings.Join(append(words, e.Refuses...), " "))
	}
	return all
}

// operatorMethods returns the methods of all interfaces in the operators' schemas.
func operatorMethods(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range []string{"console", "virtualfs", "control"} {
		text, err := os.ReadFile("../schema/" + file + ".capnp")
		check.OK(t, err)
		in := ""
		for line := range strings.Lines(string(text)) {
			if m := regexp.MustCompile(`^interface (\w+)`).FindStringSubmatch(line); m != nil {
				in = m[1]
			}
			if m := regexp.MustCompile(`^  (\w+) @\d+ \(`).FindStringSubmatch(line); m != nil && in != "" {
				all = append(all, in+"."+m[1])
			}
		}
	}
	slices.Sort(all)
	return all
}
