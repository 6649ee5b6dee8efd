package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"capd/meter"
	"capd/tests/wording"
	"capd/vfs"
)

// speaks are the packages whose messages can reach the command line.
var speaks = []string{"archive", "vfs", "cap", "backend", "virtualfs", "operator", "authority", "approval", "hook", "meter", "client", "locator", "host", "state", "server", "materialize", "sandbox", "policy"}

// ofTheCommandLine matches words that only the command line uses: its commands and its flags.
var ofTheCommandLine = regexp.MustCompile(`\bcapd (?:serve|grants?|revoke|set-writable|limit|status|mounts?|unmount|diff|apply|revert|commit|snapshots?|run|ls|tree|archive|cat|put|append|stat|mkdir|mv|rm|glob|attenuate|tour|watch|asks?|approvals)\b|[a-z] --[a-z]`)

// ofGit are texts with commands and flags of git.
var ofGit = regexp.MustCompile(`^diff --git |git refs migrate --`)

// A package tells a program that embeds it what is wrong and what to do, not which command to run.
func TestNeutralMessages(t *testing.T) {
	for _, dir := range speaks {
		for text, where := range wording.Texts(t, filepath.Join("..", "..", dir)) {
			if m := ofTheCommandLine.FindString(text); m != "" && !ofGit.MatchString(text) {
				t.Errorf("%s: %q names %q: leave that to words.go", where, text, m)
			}
		}
	}
}

// ofTheWire matches words of the interfaces that the command line does not use.
var ofTheWire = regexp.MustCompile(`\b[a-z][A-Za-z]*\(\)|\bDirs?\b|\b(?:subDir|openDir|openFile|readBytes|readText|createDir|createFile|ifTarget|noFollow)\b|[a-z] see grants|\bcall (?:walk|stage)\b|look it up again|does not know this method|in State\b|Socket\.Dir|in Advertise`)

// neverShown are messages with such words that no command can cause.
var neverShown = []string{
	"the content is not UTF-8 text; use readBytes", // capd cat streams
	// capd attenuate shares what it was given, and capd mv moves between directories of one capability.
	"this takes a Dir or a File of this connection; make the call over the connection that yours came from",
	"this is a Dir where a File belongs; pass it as ref.dir",
	"this is a File where a Dir belongs; pass it as ref.file",
	"dst is a File; name a Dir",
	"dst is not a Dir of this connection; share a Dir of another connection there and restore it here, or copy",
}

// The table has words for every message that speaks of methods, and no entry without a message.
func TestWords(t *testing.T) {
	messages := map[string]string{}
	for _, dir := range speaks {
		for text, where := range wording.Texts(t, filepath.Join("..", "..", dir)) {
			messages[text] = where
		}
	}
	if got := len(messages); got <= 500 {
		t.Fatalf("%v <= %v", got, 500)
	}
	used := map[string]bool{}
	for text, where := range messages {
		for _, w := range words {
			if strings.HasSuffix(text, w.said) {
				used[w.said] = true
			}
		}
		shown := inWords(text)
		for _, never := range neverShown {
			if text == never {
				shown = ""
			}
		}
		if m := ofTheWire.FindString(shown); m != "" && strings.Contains(text, " ") {
			t.Errorf("%s: %q is shown with %q in it: give it words in words.go", where, text, m)
		}
	}
	for _, w := range words {
		if !used[w.said] && !used[strings.TrimPrefix(w.said, "; ")] && !middle(messages, w.said) {
			t.Errorf("nothing says %q", w.said)
		}
	}
}

// middle reports whether a message that the table changes contains said.
func middle(messages map[string]string, said string) bool {
	for text := range messages {
		if rest, _, ok := strings.Cut(text, said); ok && inWords(text) != text && rest != text {
			return true
		}
	}
	return false
}

// Every message of a meter is put into words, for each kind, and only once.
func TestLimitsInWords(t *testing.T) {
	for k := range meter.Kinds {
		for _, full := range []meter.Full{{Limit: 4}, {Limit: 4, Share: true}, {Share: true}} {
			full.Kind, full.Whose = k, "this grant"
			said := full.Error()
			shown := inWords(said)
			if got := shown; !regexp.MustCompile(`\(limit ` + k.String() + `\); (let some commands end|take some back \(capd attenuate --list, --revoke\)|remove something with capd rm|ask about a smaller directory), or (ask whoever runs the host for more: capd limit GUEST ` + k.String() + `=N|try again later; .*)$`).MatchString(got) {
				t.Fatalf("%q does not match", got)
			}
			if got, want := inWords(said+", or move a smaller part"), shown+", or move a smaller part"; got != want {
				t.Fatalf("%v, want %v", got, want)
			}
			if got, want := inWords(shown), shown; !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
}

// The text after a path is put into words. A path that looks like such text is not.
func TestInWords(t *testing.T) {
	if got, want := inWords("nope: nothing has this name; list() shows what is here"), "nope: nothing has this name; capd ls shows what is here"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if got, want := inWords("a link leads out of this Dir (its target is not shown); if you hold a higher Dir, call walk or subDir there"), "a link leads out of what the locator gives (its target is not shown); with a locator for more of the tree it may work"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if got, want := inWords((&meter.Full{Kind: meter.Nodes, Limit: 4, Whose: "this grant", Share: true}).Error()), "others leave this grant only 4 open nodes now (limit nodes); let some commands end, or try again later; capd status --guests shows the operator who holds them"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if got, want := inWords((&meter.Full{Kind: meter.Connections, Limit: 9, Whose: "this host"}).Error()), "this host holds all of its 9 connections (limit connections); let some commands end"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if got, want := inWords(meter.TooMuch("what is mounted here")), "this is more than the quota of what is mounted here has left; remove something with capd rm, or ask whoever runs the host for more"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
	if got, want := inWords("; list() shows what is here: busy"), "; list() shows what is here: busy"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

// A message that sends a guest to the host tells the operator what to do. The store has
// such messages.
func TestToOperator(t *testing.T) {
	found := 0
	for text := range wording.Texts(t, filepath.Join("..", "..", "backend", "physical")) {
		if !strings.HasSuffix(text, forRoom) {
			continue
		}
		found++
		err := toOperator(fmt.Errorf("a mount: %w", vfs.At("draft", vfs.Errorf(vfs.Limit, "%s", text))))
		want := "limit: draft: " + strings.TrimSuffix(text, forRoom) + "; make room on the disks of the state directory and of what is mounted, and try again"
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
	if found == 0 {
		t.Error("no message ends so")
	}
	if err := toOperator(vfs.Busy); err != vfs.Busy {
		t.Error(err)
	}
}

// What is missing is looked for with a command that its reader can use.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{toOperator(vfs.At("nope", vfs.ErrNoTree)), "nope: nothing has this name; capd mounts lists what is mounted"},
		{belowMissing("none/f", vfs.At("none", vfs.NotFound)), "none: nothing has this name; capd mkdir -p DIR makes directories"},
		{belowMissing("f", vfs.At("f", vfs.NotFound)), "f: nothing has this name; capd ls shows what is here"},
		{belowMissing("none/f", vfs.At("none", vfs.Denied)), vfs.At("none", vfs.Denied).Error()},
	} {
		if got := speak(c.err).Error(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
