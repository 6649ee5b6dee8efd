package mcp

import "strings"

// words replace parts of messages. The host and the client speak of the interfaces' methods; agents have tools.
// One that ends in … replaces the rest of a message, too.
var words = []struct{ said, here string }{
	{"; list() shows what is here", "; list_directory shows what is there"},
	{"; look it up again", "; it was moved, removed or made again meanwhile: look with list_directory, and try again"},
	{"; ask its operator to watch, and try again", "; ask whoever runs the host to run capd watch, and try again"},
	{" stays, so ask the host's operator to decide, and try again", " stays: ask whoever runs the host to decide with capd ask, and make the same call again"},
	{"; open a Dir on the way", "; give it a shorter path"},
	{"; if you hold a higher Dir, call walk or subDir there", "; there is no way to what it leads to"},
	{"a link leads out of this Dir (its target is not shown)", "a link leads out of the allowed directories (its target is not shown)"},
	{"the link leads out of this Dir; its target is not shown", "the link leads out of the allowed directories; its target is not shown"},
	{"; use the Dir itself", "; name the directory itself"},
	{"; a Dir has no parent to go to", "; a path cannot go above the allowed directories"},
	{"; name something in this Dir", "; name something in the directory"},
	{"a path starts at this Dir, never with \"/\"", "a path starts at an allowed directory"},
	{"a pattern is not empty and starts at this Dir, never with \"/\"", "a pattern is not empty, and is relative to path"},
	{"the content is not UTF-8 text; use readBytes", "the content is not UTF-8 text; use read_media_file"},
	{"; use read or stream", "; use read_lines"},
	{"; use read with an offset", "; no tool reads that far"},
	{"; ask for a window of it with readLines(…", "; use read_lines, or head or tail"},
	{"what this was called on has no such method…", "this is a file where a directory is needed, or a directory where a file is needed"},
	{"; use stage", "; write it in parts with apply_patch or edit_file"},
	{"old matches", "oldText matches"},
	{", or replace all", ", or set replaceAll"},
	{"; see history", "; history lists them"},
	{"the host does not know this method", "the host is another version of capd and cannot do this"},
	{"; release some", "; let some calls end"},
	{"; close some", "; let some calls end"},
	{"; let some end", "; let some calls end"},
	{"; finish some", "; let some calls end"},
	{"; wait for some answers", "; let some calls end"},
	{"; remove something", "; remove something with remove"},
}

// inWords returns a message of the host in the words of the tools.
func inWords(msg string) string {
	for _, w := range words {
		said, rest := strings.CutSuffix(w.said, "…")
		before, after, ok := strings.Cut(msg, said)
		switch {
		case ok && rest:
			msg = before + w.here
		case ok:
			msg = before + w.here + after
		}
	}
	return msg
}
