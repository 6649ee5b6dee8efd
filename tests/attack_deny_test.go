package tests

import (
	"context"
	"os"
	"strings"
	"testing"

	"capd/cap/wire"
	"capd/vfs/deny"
)

// Deny: withheld names are neither listed nor named, whether or not they exist.
func TestAttackDeny(t *testing.T) {
	h := serve(t)
	withheld := func(name string) []attempt { return []attempt{{ops: every, path: name, want: "denied"}} }
	env := func(name string) func(s *attackDir) { return func(s *attackDir) { s.write(name, secret) } }
	for _, a := range []attack{
		{n: 45, name: "other case, there", setup: env(".ENV"), tries: withheld(".ENV")},
		{n: 45, name: "other case, not there", tries: withheld(".EnV")},
		{n: 45, name: "other case of a directory", setup: func(s *attackDir) { s.mkdir(".SSH"); s.write(".SSH/id", secret) }, tries: []attempt{
			{ops: pathwise, path: ".SSH/id", want: "denied"},
			{ops: pathwise, path: ".SSH", want: "denied"},
		}},
		{n: 46, name: "compatible characters, there", setup: env("．env"), tries: withheld("．env")},
		{n: 46, name: "compatible characters, not there", tries: withheld(".ｅnv")},
		{n: 46, name: "an ending", setup: env("host.ｐem"), tries: withheld("host.ｐem")},
		{n: 47, name: "rename away, there", setup: env(".env"), tries: []attempt{
			{ops: every, path: ".env", want: "denied"},
			{ops: "move from, move to", path: ".env.local", want: "denied"},
			{ops: "get, walk, readBytes", path: "moved", want: "notFound"},
		}},
		{n: 47, name: "rename away, not there", tries: withheld(".env")},
		{n: 48, name: "rename an ancestor", setup: func(s *attackDir) { s.mkdir("a"); s.write("a/.env", secret) }, tries: []attempt{
			// The rule applies at both ends alike, so the directory may move. What it withholds
			// stays withheld.
			{ops: "move from", path: "a", want: "ok", after: func(s *attackDir, _ string) {
				for op := range strings.SplitSeq(every[len("get, "):], ", ") {
					s.attempt(op, attempt{path: "moved/.env", want: "denied"})
				}
			}},
		}},
		{n: 49, name: "enumeration", setup: func(s *attackDir) {
			s.mkdir("d/.ssh")
			s.mkdir("d/sub/.aws")
			for _, name := range []string{".env", ".ENV", "．env", "key.pem", "KEY.PEM", ".ssh/id", "sub/.aws/config", "sub/.env.local", "sub/.npmrc"} {
				s.write("d/"+name, secret)
			}
			s.write("d/seen", "seen")
			s.write("d/sub/seen", "seen")
		}, tries: []attempt{
			{ops: "list", path: "d", want: "ok", answer: says("seen\nsub")},
			{ops: "list", path: "d/sub", want: "ok", answer: says("seen")},
			{ops: "glob", path: "**", want: "ok", answer: says("bait\nd\nd/seen\nd/sub\nd/sub/seen")},
			{ops: "glob", path: "**/.*", want: "ok", answer: says("")},
			{ops: "glob", path: "d/{.env,seen,key.pem}", want: "ok", answer: says("d/seen")},
			{ops: "glob", path: "d/.ssh/*", want: "ok denied", answer: says("")},
			{ops: "glob", path: "d/.[a-z]*", want: "ok", answer: says("")},
			{ops: "remove", path: "d/sub/.aws", want: "denied"},
		}},
	} {
		h.run(t, a)
	}
	t.Run("48 an ancestor, under a rule of one place", attackAncestor)
}

// attackAncestor: if a rule names a place, the directories that lead there cannot be moved away,
// and nothing can be moved to their names, whether or not the withheld name exists.
func attackAncestor(t *testing.T) {
	h := serveHere(t, nil, deny.Must("*/keep/secret/**").Guard())
	g := h.guest("project")
	for _, name := range []string{"there", "not"} {
		ok(t, os.MkdirAll(h.served+"/"+name+"/keep", 0o755))
		ok(t, os.MkdirAll(h.served+"/"+name+"/other", 0o755))
	}
	ok(t, os.MkdirAll(h.served+"/there/keep/secret", 0o755))
	ok(t, os.WriteFile(h.served+"/there/keep/secret/f", []byte(secret), 0o644))
	before := take(t, h.served)
	attacks.add(t, toll{cases: 1, names: 7})
	for _, m := range [][2]string{
		{"there/keep", "there/free"}, {"not/keep", "not/free"}, {"there", "not/other/there"}, {"not", "there/other/not"},
		{"there/other", "free"}, {"there/keep/secret", "free"}, {"not/keep/secret", "free"},
	} {
		attacks.tried(t, false)
		err := wire.Decode(move(context.Background(), g.Cap(), m[0], g.Cap(), m[1]))
		if !is(t, "move "+m[0]+" to "+m[1], err, "denied") && err == nil {
			attacks.escape(t)
			return
		}
	}
	if d := before.differs(take(t, h.served)); d != "" {
		t.Error(d)
	}
}
