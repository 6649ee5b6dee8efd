package main

import (
	"strings"
	"testing"
	"time"

	"capd/operator"
	"capd/record"
)

// A path cannot look like several columns: one with blanks that a reader may take for the space between columns is quoted.
func TestShownPath(t *testing.T) {
	for path, want := range map[string]string{
		"a/b c.txt":     "a/b c.txt",
		"日本/e\u0301":    "日本/e\u0301",
		"a  once":       `"a  once"`,
		" a":            `" a"`,
		"a ":            `"a "`,
		"a\u3000b":      `"a\u3000b"`,
		"a\u2800b":      `"a\u2800b"`,
		"a\u00a0b":      `"a\u00a0b"`,
		`"a"`:           `"\"a\""`,
		"a\"  b\x1b":    `"a\"  b\x1b"`,
		"a  \u202e\xff": `"a  \u202e\xff"`,
	} {
		if got := shownPath(path); got != want {
			t.Errorf("%q is shown as %s, want %s", path, got, want)
		}
	}
	if got, want := changeOf("rename", "a  b", "c"), `rename "a  b" to c`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := changed(record.Entry{Path: "a  b", To: "c "}), `"a  b" -> "c "`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := readText(record.Dir{Path: "a  b", Reads: 1}), `1 read, 0 listed  "a  b/"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A long reason does not widen the table of requests.
func TestLongReason(t *testing.T) {
	for _, a := range []operator.Ask{
		{ID: "5f3a2b0011", Guest: "agent", Operation: "replace", Path: strings.Repeat("日a/", 300), Why: []string{strings.Repeat("because ", 90)}},
		{ID: "5f3a2b0011", Guest: "agent", Operation: "request", Path: "p", Words: strings.Repeat("x", 700)},
	} {
		for i, cell := range strings.Split(askLine(a), "\t") {
			if n := places(cell); n > 60 {
				t.Errorf("cell %d takes %d places", i, n)
			}
		}
		if line := askLine(a); !strings.Contains(line, "…") {
			t.Errorf("%q does not say that it was cut", line)
		}
	}
	short := operator.Ask{ID: "5f3a2b0011", Guest: "agent", Operation: "replace", Path: "p", Why: []string{strings.Repeat("x", 60)}, Asked: time.Now()}
	if line := askLine(short); strings.Contains(line, "…") {
		t.Errorf("%q was cut", line)
	}
}
