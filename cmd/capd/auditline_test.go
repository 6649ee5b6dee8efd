package main

import (
	"strings"
	"testing"

	"capd/record"
)

// Each kind of entry has a line that says who, what, and about what.
func TestAuditLine(t *testing.T) {
	held := []record.Holder{{ID: "g1", Name: "agent"}}
	for _, c := range []struct {
		e    record.Entry
		how  string
		want string
	}{
		{record.Entry{Kind: record.Started}, "", "host       started"},
		{record.Entry{Kind: record.Intended, Grants: held, Op: "rename", Path: "a", To: "b"}, "done", "agent      rename    done      a -> b"},
		{record.Entry{Kind: record.Intended, Op: "undo", Path: "m", Paths: 1, Undoes: "c3"}, "", "host       undo      under way  m  1 path  undoes c3"},
		{record.Entry{Kind: record.Invited, Subject: "agent-run:builder", Invite: "i1"}, "", "builder    invited   i1"},
		{record.Entry{Kind: record.Revoked, Subject: "agent-run:builder", Invite: "i1"}, "", "builder    revoked   i1"},
		{record.Entry{Kind: record.Revoked, Subject: "agent-run:agent", Grants: held}, "", "agent      revoked   (everything)"},
		{record.Entry{Kind: record.Asked, Subject: "agent-run:builder", Op: "request", Path: "project", Rights: "read,list", Ask: "0123456789"}, "",
			"builder    asked     request project with read,list  01234567"},
		{record.Entry{Kind: record.Decided, Grants: held, Op: "rename", Path: "a", To: "b", Ask: "0123456789", Answer: "once"}, "",
			"agent      decided   once      rename a to b  01234567"},
		{record.Entry{Kind: record.Changed, Grants: held, Limits: map[string]int64{"threads": -1, "storedBytes": 1 << 20}}, "",
			"agent      terms     storedBytes=1MiB threads=none  (everything)"},
		{record.Entry{Kind: record.Changed, Grants: held, Rights: "read", Path: "a"}, "", "agent      terms     rights read  a"},
		{record.Entry{Kind: record.Ruled, Policy: strings.Repeat("0123456789abcdef", 4)}, "", "host       policy    0123456789ab"},
		{record.Entry{Kind: record.Denied, Grants: held, Op: "replace", Path: "a", Code: "denied", Rule: "capd.yaml:6:5", Times: 3}, "",
			"agent      replace   denied    a  3 times  [capd.yaml:6:5]"},
		{record.Entry{Kind: record.Denied, Op: "restore", Code: "revoked", Times: 1}, "", "nobody     restore   revoked   (everything)"},
		{record.Entry{Kind: record.Denied, Grants: held, Times: 7}, "", "agent      and 7 other calls were refused"},
		{record.Entry{Kind: record.Locked, Grants: held, Path: "a", Refuses: []string{"reads", "changes"}}, "", "agent      locked    reads,changes  a"},
		{record.Entry{Kind: record.Locked, Grants: held, Path: "a"}, "", "agent      unlocked  a"},
		{record.Entry{Kind: record.Mounted, Path: "m", URL: "memory:"}, "", "host       mounted   m/        memory:"},
		{record.Entry{Kind: record.Hook, Hooks: []record.Hooked{{Name: "lint", Said: "registered"}}}, "", "host       hook      lint registered"},
		{record.Entry{Kind: record.Trimmed, Before: 256}, "", "host       trimmed   the entries before c256"},
		{record.Entry{Kind: record.Read, Grants: held, Op: "list", Path: "a"}, "", "agent      list      a"},
		{record.Entry{Kind: record.Counted, Grants: held, Dirs: []record.Dir{{Path: "a", Reads: 1}}}, "", "agent      reads     1 read, 0 listed  a/"},
	} {
		line := changeLine(painter{}, record.Numbered{Number: 7, Entry: c.e}, c.how)
		if _, got, _ := strings.Cut(line, "  c7     "); got != c.want {
			t.Errorf("%v: got\n%q, want\n%q", c.e.Kind, got, c.want)
		}
	}
}
