package main

import (
	"crypto/sha256"
	"os"
	"path/filepath"

	"capd/locator"
	"capd/vfs"
)

// steps returns the steps of the tour.
func (t *tour) steps() []tourStep {
	site := func(name string) string { return filepath.Join(t.dir, "site", name) }
	steps := []tourStep{
		{say: "A guest, in another process, looks around. It sees a tree and nothing of the host.",
			as: "GUEST", args: []string{"ls"}, shows: "project/\ntmp/"},
		{as: "GUEST", args: []string{"ls", "-l", "project"}, shows: "README.md"},
		{as: "GUEST", args: []string{"tree", "project"}, shows: "guide.md"},
		{as: "GUEST", args: []string{"cat", "project/README.md"}, shows: "A small site"},
		{as: "GUEST", args: []string{"glob", "project/**/*.{md,go}"}, shows: "project/docs/guide.md"},
		{say: "The capability explains itself, for a model that has never seen one.",
			as: "GUEST", args: []string{"help", "glob"}, shows: "glob"},

		{say: "It writes. A whole file goes in at once or not at all; the answer is the new version.",
			as: "GUEST", args: []string{"put", "project/note.txt"}, stdin: "one\n", shows: versionOf("one\n")},
		{as: "GUEST", args: []string{"append", "project/note.txt"}, stdin: "two\n"},
		{as: "GUEST", args: []string{"cat", "project/note.txt"}, shows: "one\ntwo\n"},
		{as: "GUEST", args: []string{"stat", "project/note.txt"}, shows: "8 bytes"},
		{say: "A write that relies on what is stale is refused, so that nobody's work is lost.",
			as: "GUEST", args: []string{"put", "project/note.txt", "--if-version", versionOf("one\n")}, stdin: "three\n", want: vfs.Conflict},
		{as: "GUEST", args: []string{"put", "project/note.txt", "--if-version", versionOf("one\ntwo\n")}, stdin: "three\n"},
		{as: "GUEST", args: []string{"mkdir", "tmp/scratch"}},
		{as: "GUEST", args: []string{"put", "tmp/scratch/x"}, stdin: "x"},
		{as: "GUEST", args: []string{"rm", "tmp/scratch"}, want: vfs.NotEmpty},
		{as: "GUEST", args: []string{"rm", "tmp/scratch/x"}},

		{say: "Secrets are withheld, and the answer is the same whether or not there is one.",
			as: "GUEST", args: []string{"cat", "project/.env"}, want: vfs.Denied},
		{as: "GUEST", args: []string{"cat", "project/docs/.env"}, want: vfs.Denied},
		{as: "GUEST", args: []string{"glob", "project/**/.env"}},
		{say: "What would make another program run something can be read and not written.",
			as: "GUEST", args: []string{"put", "project/.git/hooks/pre-commit"}, stdin: "#!/bin/sh\n", want: vfs.AskDenied},

		{say: "There is no way out: not by a path, not by a link, and a trap does not hold it up.",
			as: "GUEST", args: []string{"cat", "project/../../outside/private.txt"}, want: vfs.Invalid},
		{as: "GUEST", args: []string{"cat", "/etc/passwd"}, want: vfs.Invalid},
		{ready: func() error { return os.Symlink("../outside/private.txt", site("link")) },
			as: "GUEST", args: []string{"cat", "project/link"}, want: vfs.Outside},
	}
	if makeFIFO != nil {
		steps = append(steps, tourStep{ready: func() error { return makeFIFO(site("pipe")) },
			as: "GUEST", args: []string{"cat", "project/pipe"}, want: vfs.NotRegular})
	}
	return append(steps, []tourStep{
		{say: "The guest makes a narrower capability for a guest of its own: one directory, for reading.",
			as: "GUEST", args: []string{"attenuate", "--read-only", "--path", "project/docs"}, keep: "SUB"},
		{as: "SUB", args: []string{"ls"}, shows: "guide.md"},
		{as: "SUB", args: []string{"put", "guide.md"}, stdin: "mine\n", want: vfs.ReadOnly},
		{as: "SUB", args: []string{"cat", "../README.md"}, want: vfs.Invalid},

		{say: "The host gives another guest something else, and sees who holds what.",
			args: []string{"grant", "reviewer", "--path", "project/docs", "--read-only"}, keep: "REVIEWER"},
		{as: "REVIEWER", args: []string{"cat", "guide.md"}, shows: "Write here."},
		{args: []string{"grants"}, shows: "reviewer"},
		{args: []string{"grants", "--json"}, shows: `"parent": "g1"`},

		{say: "The host locks the guest in mid-session, and unlocks it.",
			args: []string{"set-writable", firstGuest, "false"}, shows: "locked"},
		{as: "GUEST", args: []string{"put", "project/note.txt"}, stdin: "four\n", want: vfs.ReadOnly},
		{as: "GUEST", args: []string{"cat", "project/note.txt"}, shows: "three"},
		{args: []string{"set-writable", firstGuest, "true"}, shows: "unlocked"},
		{as: "GUEST", args: []string{"put", "project/note.txt"}, stdin: "four\n"},

		{say: "The host takes it back. Everything that came from it is dead at once; the other guest works on.",
			args: []string{"revoke", firstGuest}, shows: "revoked"},
		{as: "GUEST", args: []string{"ls"}, want: vfs.Revoked},
		{as: "SUB", args: []string{"ls"}, want: vfs.Revoked},
		{as: "REVIEWER", args: []string{"ls"}, shows: "guide.md"},
		{say: "A locator that was never given out opens nothing.",
			ready: func() error {
				t.locators["FORGED"] = locator.Locator{Socket: filepath.Join(t.dir, "state", "guest.sock"), Secret: locator.NewSecret()}.String()
				return nil
			},
			as: "FORGED", args: []string{"ls"}, want: vfs.Denied},
	}...)
}

func versionOf(content string) string { return vfs.Version(sha256.Sum256([]byte(content))).String() }
