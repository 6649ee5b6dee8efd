package tests

import (
	"fmt"
	"os"
	"strings"
	"sync"
)

// big is the content that streaming scenarios download.
var big = sync.OnceValue(func() []byte { return noise(20<<20 + 7) })

func bigFile(s *cxxScene) { s.write("big", big()) }

// empties makes n files in many/.
func empties(n int) func(*cxxScene) {
	return func(s *cxxScene) {
		for i := range n {
			s.write(fmt.Sprintf("many/f%04d", i), make([]byte, i%10))
		}
	}
}

// wrote checks that a file has the content that the client reports: "WORD
// DIGEST VERSION".
func wrote(word, path string) func(s *cxxScene) {
	return func(s *cxxScene) {
		s.Helper()
		b := s.read(path)
		if got, want := s.said(word), digest(b)+" "+version(b); got != want {
			s.Errorf("%s: the client says %s; %s is %s", word, got, path, want)
		}
	}
}

func absent(s *cxxScene, paths ...string) {
	s.Helper()
	for _, path := range paths {
		if _, err := os.Lstat(s.path(path)); err == nil {
			s.Errorf("%s is there", path)
		}
	}
}

func holds(s *cxxScene, path, want string) {
	s.Helper()
	if got := string(s.read(path)); got != want {
		s.Errorf("%s holds %q, want %q", path, got, want)
	}
}

func all(after ...func(*cxxScene)) func(*cxxScene) {
	return func(s *cxxScene) {
		for _, f := range after {
			f(s)
		}
	}
}

// exactly returns a fixed expected output.
func exactly(text string) func(*cxxScene) string { return func(*cxxScene) string { return text } }

var scenarios = []scenario{
	{name: "session", refused: "denied denied denied readOnly invalid revoked revoked",
		want: exactly("shared of docs\nstill of docs\nfile hello")},
	{name: "shares", refused: "quota expired notFound notFound revoked",
		want: exactly("share docs 9 -1 1 true\nshare a.md 9 0 0 false\nafter the first 1\nof docs 1\nleft 1")},
	{name: "explain", refused: "notFound invalid", want: exactly("yes false true\nno false true\nyes false true")},
	{name: "history", refused: "notFound invalid notFound", after: func(s *cxxScene) { holds(s, "a.md", "three") },
		want: exactly("history replace a.md more true\npast hello true 5\nsteps 1\nundone replace 1\nagain 2\nturn t")},
	{name: "help", refused: "notFound notFound notFound notFound notFound notFound", setUp: invited,
		want: exactly("help Session 8\nhelp Dir 36\nhelp File 20\nhelp Writer 3\nhelp Revoker 2\nhelp Petitioner 4")},
	{name: "archive", refused: "invalid", want: exactly("archived 4 0")},
	{name: "list", setUp: all(empties(1200), func(s *cxxScene) { s.write("bad\xffname", []byte("bad")) }), want: exactly(`
listed 1200 5400 2
listed 1200 5400 172
listed 1200 5400 2
entry .git 2 0 false
entry a.md 1 5 false
entry bad%FFname 1 3 false
entry docs 2 0 false
entry exec.sh 1 10 true
entry latin1 1 5 false
entry link 3 0 false
entry loop 3 0 false
entry many 2 0 false
entry out 3 0 false`)},
	{name: "glob", setUp: empties(500), refused: "invalid", want: exactly(`
glob **/*.md 3 a.md docs/b.md docs/deep/c.md
glob docs/** 5 docs docs/b.md docs/deep docs/deep/c.md docs/up
glob {a,exec}.* 2 a.md exec.sh
glob many/f*7 50 many/f0007 many/f0017 many/f0027 many/f0037 many/f0047
glob none* 0 -
tree 0  5 0
tree 1 .git 1 0
tree 1 a.md 0 0
tree 1 docs 3 0
tree 1 many 500 0`)},
	{name: "grep", refused: "invalid notFound", want: exactly(`
grep - more true
docs/b.md
1 of docs match
grep - more false
docs/deep/c.md
1 deep match
grep docs/deep/c.md more false
docs/deep/c.md
1 deep match`)},
	{name: "nodes", want: exactly(`
get file a.md 5 false
get dir docs
get file exec.sh 10 true
get link link to "docs/b.md" outside false
get link out to "" outside true
walk dir deep
walk dir deep
walk file c.md 4 false
walk file c.md 4 false
walk file link 7 false
walk link link to "docs/b.md" outside false
walk file a.md 5 false
walk file a.md 5 false
text of docs
stat 4 ` + version([]byte("deep")))},
	{name: "read", refused: "invalid tooLarge", setUp: func(s *cxxScene) { s.write("big", noise(1_500_001)) }, want: func(s *cxxScene) string {
		big := noise(1_500_001)
		return fmt.Sprintf("text hello %s\nlines 5 1 1 2 false 1 %s\nmany 2 5 %s capd: notFound: nothing has this name; list() shows what is here\nchanged 3 1 2 %s\nbytes %s %s\nparts %s 16", version([]byte("hello")), version([]byte("caf\xe9\n")), version([]byte("caf\xe9\n")), version([]byte("hello")), digest(big), version(big), digest(big))
	}},
	{name: "file", path: "a.md", want: exactly("text hello\nstat 5 true\ntext hello more")},

	{name: "wholes", refused: "conflict conflict conflict notRegular invalid",
		want: exactly("version " + version([]byte("four")) + "\ntext four\nstaged " + version([]byte("in parts"))),
		after: func(s *cxxScene) {
			holds(s, "new", "four")
			holds(s, "docs/b.md", "by the link")
			holds(s, "staged", "in parts")
		}},
	{name: "inplace", refused: "conflict conflict conflict invalid conflict",
		want: func(s *cxxScene) string {
			b := []byte("no \x00gap before\x00\x00")
			return fmt.Sprintf("offset 14\nexecutable yes\nbytes %x %s\nedited 2 1 %s", b, version(b), version([]byte("hey\nlo")))
		},
		after: func(s *cxxScene) { holds(s, "docs/grown", "no \x00gap before\x00\x00") }},
	{name: "tree", refused: "exists exists invalid notFound outside exists notEmpty conflict unsupported unsupported", want: exactly("moved hello"),
		after: func(s *cxxScene) {
			holds(s, "one/two/three/moved.md", "of the tree")
			holds(s, "c.md", "of docs")
			absent(s, "a.md", "docs/b.md", "one/two/three/leaf", "link", "latin1", "x")
		}},
	{name: "change", refused: "notFound",
		want: exactly("left 0\nleft 32\nleft 0\nleft 0"),
		after: func(s *cxxScene) {
			holds(s, "made/a.md", "bye")
			absent(s, "a.md", "latin1")
		}},
	{name: "extract", refused: "invalid exists notFound", want: exactly("extracted 1 0"), after: func(s *cxxScene) { absent(s, "docs/none") }},
	{name: "copy", refused: "exists outside invalid", want: exactly("copied 2 4\ncopied 1 5\ncopied 0 0"),
		after: func(s *cxxScene) {
			holds(s, "docs/deep/c.md", "deep")
			holds(s, "uno/c.md", "hello")
			absent(s, "dos")
		}},
	{name: "patch", refused: "conflict invalid",
		want: exactly("patched a.md 1 1 true\npatched new/f 1 1 false\npatched a.md 1 1 true"),
		after: func(s *cxxScene) {
			holds(s, "a.md", "bye")
			holds(s, "new/f", "made\n")
		}},
	{name: "attenuate", refused: "readOnly readOnly invalid readOnly revoked revoked revoked revoked revoked revoked",
		want: exactly("text hello\nderived deep\ntext lent"),
		after: func(s *cxxScene) {
			holds(s, "docs/deep/written", "before")
			absent(s, "never")
		}},
	{name: "rights", refused: "denied denied readOnly", want: exactly("dir write,list\nnone 0\nfile write,list"),
		after: func(s *cxxScene) { holds(s, "docs/dropped", "into the box") }},
	{name: "errors", path: "/", refused: "notFound notDir isDir invalid invalid invalid outside limit denied denied askDenied tooLarge busy stale invalid invalid",
		want: exactly("alive hello")},

	{name: "pipeline", refused: "notFound notFound", want: exactly("text deep\nrestored hello\nwalked of docs")},
	{name: "chain", via: heldUntil(7), refused: "isDir", want: exactly("text of docs")},
	{name: "dropped", want: exactly("read 1020")},
	{name: "order", want: exactly("appended 900"), after: func(s *cxxScene) {
		var want strings.Builder
		for i := range 900 {
			fmt.Fprintln(&want, i)
		}
		holds(s, "lines", want.String())
	}},
	{name: "many", want: exactly("bytes 21000")},

	{name: "download", setUp: bigFile, refused: "invalid", want: func(*cxxScene) string {
		b := big()
		return fmt.Sprintf("came 0 0 %s\ncame 1000001 3000003 %s\ncame 0 1 %s\ncame %d 0 %s\ncame %d 5 %s\nslow %s\nalive hello",
			digest(b), digest(b[1_000_001:4_000_004]), digest(b[:1]), 48<<20, digest(nil), 1<<40, digest(nil), digest(b))
	}},
	{name: "upload", refused: "tooLarge", after: func(s *cxxScene) {
		wrote("staged", "docs/new")(s)
		wrote("over", "a.md")(s)
		absent(s, "dropped", "broken")
	}},
	{name: "careless", want: exactly("careless 60 0")},
	{name: "duplex", setUp: bigFile, after: func(s *cxxScene) {
		wrote("up", "up")(s)
		if got, want := s.said("down"), digest(big()); got != want {
			s.Errorf("%s came down, want %s", got, want)
		}
	}},
	{name: "window", setUp: bigFile, want: func(*cxxScene) string { return "alive hello\ncame " + digest(big()) }},
	{name: "cancel", setUp: bigFile, want: exactly("alive hello")},
	{name: "revoked", setUp: bigFile, refused: "revoked revoked", want: exactly("alive hello"), after: func(s *cxxScene) { absent(s, "up") }},
	{name: "taken", setUp: bigFile, when: map[string]func(*cxxScene){"streaming": revokeIt}, refused: "revoked revoked revoked revoked",
		after: func(s *cxxScene) { absent(s, "up") }},

	// The last one: for some seconds after it the host takes it that somebody decides.
	{name: "petitioner", refused: "invalid denied notFound", setUp: all(invited, listening), when: map[string]func(*cxxScene){"asked": decided},
		want: exactly("offer project workspace 9 0\nasked once\nread of docs\nasked deny\nasked less\nfile hello")},
}
