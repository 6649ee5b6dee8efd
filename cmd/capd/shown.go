package main

import (
	"strconv"
	"strings"
	"unicode"

	"capd/operator"
	"capd/vfs"
)

// maxCell is how many places a guest's words take in a table.
const maxCell = 60

// shownPath returns a path for a table or a line of the record. It is quoted if its blanks could pass for the space between
// columns. [vfs.Printable] has the rest.
func shownPath(path string) string {
	odd := strings.ContainsFunc(path, oddBlank) || strings.Contains(path, "  ")
	if !odd && strings.Trim(path, " ") == path && !strings.HasPrefix(path, `"`) {
		return vfs.Printable(path)
	}
	return vfs.Printable(strings.ReplaceAll(strconv.Quote(path), "\u2800", `\u2800`))
}

// oddBlank reports characters other than " " that look like a blank.
func oddBlank(r rune) bool { return r == '\u2800' || r != ' ' && unicode.Is(unicode.Zs, r) }

// shownDir is shownPath for a directory; see [operator.Place].
func shownDir(path string) string {
	if path == "" {
		return operator.Place("")
	}
	return shownPath(path + "/")
}

// cell returns text for a table: its beginning, if it is too long.
func cell(text string) string {
	if places(text) <= maxCell {
		return text
	}
	end, wide := 0, 0
	for i, r := range text {
		if wide += places(string(r)); wide > maxCell-1 {
			end = i
			break
		}
	}
	return text[:end] + "…"
}
