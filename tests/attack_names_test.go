package tests

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Names: no name reaches another place.
func TestAttackNames(t *testing.T) {
	h := serve(t)
	deep := func(s *attackDir) { s.mkdir("a"); s.write("a/f", "f") }
	for _, a := range []attack{
		{n: 1, name: "dot dot", tries: []attempt{
			{ops: every, path: "..", want: "invalid"},
			{ops: pathwise, path: "../bait", want: "invalid"},
			{ops: "glob", path: "../*", want: "invalid"},
		}},
		{n: 2, name: "dot dot further in", setup: deep, tries: []attempt{
			{ops: every, path: "a/../../x", want: "invalid"},
			{ops: "glob", path: "a/../../*", want: "invalid"},
		}},
		{n: 3, name: "absolute", tries: []attempt{
			{ops: every, path: "/etc/passwd", want: "invalid"},
			{ops: "glob", path: "/etc/*", want: "invalid"},
		}},
		{n: 4, name: "empty", tries: []attempt{{ops: every, path: "", want: "invalid"}}},
		{n: 5, name: "dot", tries: []attempt{{ops: every, path: ".", want: "invalid"}}},
		{n: 6, name: "NUL", setup: deep, tries: []attempt{
			{ops: every, path: "a\x00b", want: "invalid"},
			{ops: pathwise, path: "a/f\x00", want: "invalid"},
		}},
		{n: 7, name: "a slash in a name", setup: deep, tries: []attempt{{ops: "get", path: "a/f", want: "invalid"}}},
		{n: 8, name: "a backslash", tries: []attempt{{ops: creates + ", put noFollow", path: `..\x`, want: "invalid"}}},
		{n: 9, name: "percent is no escape", tries: []attempt{
			{ops: creates, path: "%2e%2e", want: "ok", after: func(s *attackDir, op string) {
				entries, err := os.ReadDir(s.dir)
				ok(s.TB, err)
				if !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "%2e%2e" }) {
					s.Errorf("%s made another name: %v", op, entries)
				}
			}},
			{ops: opens + ", " + fileUses, path: "%2e%2e", want: "notFound"},
		}},
		{n: 10, name: "256 bytes", tries: []attempt{{ops: every, path: strings.Repeat("x", 256), want: "invalid"}}},
		{n: 11, name: "258 bytes of 86 characters", tries: []attempt{{ops: every, path: strings.Repeat("界", 86), want: "invalid"}}},
		{n: 12, name: "direction turned", tries: []attempt{{ops: creates + ", put noFollow", path: "a\u202egnp.exe", want: "invalid"}}},
		{n: 13, name: "not UTF-8, created", tries: []attempt{{ops: creates + ", put noFollow", path: "\xff", want: "invalid"}}},
		{n: 14, name: "not UTF-8, there", setup: func(s *attackDir) { s.mkdir("d"); s.write("d/\xff", "raw") }, tries: []attempt{
			{ops: "list", path: "d", want: "ok", answer: says(`\xff (ff)`)},
			{ops: "glob", path: "d/*", want: "ok", answer: says(`d/\xff (642fff)`)},
			{ops: "readBytes", path: "d/\xff", want: "ok", answer: says("raw")},
		}},
		{n: 15, name: "5000 deep", setup: deep, tries: []attempt{
			{ops: every, path: strings.Repeat("a/", 4999) + "a", want: "limit invalid"},
			{ops: pathwise, path: strings.Repeat("a/", 1999) + "a", want: "limit"},
			{ops: "glob", path: strings.Repeat("a/", 1999) + "a", want: "limit invalid"},
		}},
		{n: 16, name: "4096 bytes", setup: deep, tries: []attempt{
			{ops: pathwise, path: strings.Repeat(strings.Repeat("x", 127)+"/", 32), want: "limit invalid"},
			{ops: pathwise, path: strings.Repeat(strings.Repeat("x", 127)+"/", 31) + strings.Repeat("y", 128), want: "limit"},
		}},
	} {
		h.run(t, a)
	}
	// The host still serves: none of this has used it up.
	h.run(t, attack{n: 16, name: "afterwards", tries: []attempt{{ops: "put", path: "f", want: "ok"}}})
}
