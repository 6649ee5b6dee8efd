package mcp

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/tests/wording"
)

// speaks are the packages whose messages reach a guest.
var speaks = []string{"vfs", "cap/dir", "cap/file", "cap/session", "cap/wire", "backend", "authority", "approval", "hook", "meter", "client", "host", "history"}

// ofTheWire matches names of methods and types that agents do not know.
var ofTheWire = regexp.MustCompile(`\b[a-z][A-Za-z]*\(\)|\bDirs?\b|\b(?:subDir|openDir|openFile|readBytes|readText|readLines|createDir|createFile|ifTarget|noFollow)\b|; use (?:stage|read|stream)\b|look it up again|\bcall (?:walk|stage)\b`)

// neverSaid are messages that no tool can cause.
var neverSaid = []string{
	"this takes a Dir or a File of this connection; make the call over the connection that yours came from",
	"this is a Dir where a File belongs; pass it as ref.dir", "this is a File where a Dir belongs; pass it as ref.file",
	"there is no such root to ask for; roots() lists those that there are", "no invitation has that id; invites() lists them",
	"no approval with that number holds; approvals() lists those that do", "no request for an approval has that id; asks() lists what waits",
	"a request is named by at least the first %d digits of its id; asks() lists what waits", "no hook has this name; hooks() lists them",
	"dst is a File; name a Dir", "dst is not a Dir of this connection; share a Dir of another connection there and restore it here, or copy",
}

// TestWords: no message that an agent may see speaks of methods, and each entry of the table is of use.
func TestWords(t *testing.T) {
	used := map[string]bool{}
	n := 0
	for _, dir := range speaks {
		for text, where := range wording.Texts(t, filepath.Join("..", "..", dir)) {
			if !strings.Contains(text, " ") || slices.Contains(neverSaid, text) {
				continue
			}
			n++
			for _, w := range words {
				if strings.Contains(text, strings.TrimSuffix(w.said, "…")) {
					used[w.said] = true
				}
			}
			if m := ofTheWire.FindString(inWords(text)); m != "" {
				t.Errorf("%s: %q is said with %q in it", where, text, m)
			}
		}
	}
	for _, w := range words {
		if !used[w.said] {
			t.Errorf("nothing says %q", w.said)
		}
	}
	if n < 300 {
		t.Errorf("%d messages were looked at", n)
	}
}
