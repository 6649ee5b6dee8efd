package main

import (
	"errors"
	"regexp"
	"strings"

	"capd/vfs"
)

// words replaces ends of messages. The host, the client and other packages speak of the
// interfaces' methods and of a server's fields. The command line says something else instead.
var words = []struct{ said, here string }{
	{lists, "; capd ls shows what is here"},
	{"; mounts() lists what is", "; capd mounts lists what is"},
	{"; look at the diff of these, and apply with guarded, or apply other paths", "; look at them with capd diff, and apply with --guarded, or apply other paths"},
	{"; ask its operator to watch, and try again", "; ask whoever runs it to run capd watch, and try again"},
	{" stays, so ask the host's operator to decide, and try again", " stays: ask whoever runs the host to decide with capd ask, and try again"},
	{"; asks() lists what waits", "; capd asks lists what waits"},
	{"; use restorePetitioner, and ask", "; ask with capd request"},
	{"; restore it", "; use it with capd ls, and the like"},
	{"; roots() lists those that there are", "; capd request lists those that there are"},
	{"; invites() lists them", "; capd invites lists them"},
	{"; hooks() lists them", "; capd hooks lists them"},
	{"; approvals() lists those that do", "; capd approvals lists those that do"},
	{"; look at them, and set yours with that hash", "; look at them with capd policy show, and set yours with --if and that hash"},
	{"; see grants", "; capd grants --all lists them"},
	{"; see shares", "; capd attenuate --list lists what was"},
	{"; look it up again", "; it was moved, removed or made again meanwhile: look with capd ls, and try again"},
	{taken, "; remove it first with capd rm, or choose another"},
	{"; open a Dir on the way", "; make a locator for a part of the way with capd attenuate --path"},
	{"; if you hold a higher Dir, call walk or subDir there", "; with a locator for more of the tree it may work"},
	{"a link leads out of this Dir (its target is not shown)", "a link leads out of what the locator gives (its target is not shown)"},
	{"the link leads out of this Dir; its target is not shown", "the link leads out of what the locator gives; its target is not shown"},
	{"; use the Dir itself", "; leave the path out for the capability itself"},
	{"; a Dir has no parent to go to", "; a path cannot go above what the locator gives"},
	{"; name something in this Dir", "; name something in the directory"},
	{"a path starts at this Dir, never with \"/\"", "a path starts at the capability, never with \"/\""},
	{"a pattern is not empty and starts at this Dir, never with \"/\"", "a pattern is not empty and starts at the capability, never with \"/\""},
	{"; ask for one over TLS, or that the host lets other users in", "; ask whoever runs it for one over TLS (capd grant --via tls), or to let other users in (capd serve --socket-group or --socket-mode)"},
	{"the host does not know this method", "the host is another version of capd and cannot do this"},
	{"what this was called on has no such method; a File has none of a Dir's, and a Dir none of a File's", "this is a file where the command needs a directory, or a directory where it needs a file"},
	{", or ask for more", ", or ask whoever runs the host for more"},
	{", or replace all", ", or replace each of them with --all"},
	{"; remove something", "; remove something with capd rm"},
	{"; release some", "; let some commands end"},
	{"; close some", "; let some commands end"},
	{"; let some end", "; let some commands end"},
	{"; finish some", "; let some commands end"},
	{"; wait for some answers", "; let some commands end"},
	{"; read them", "; let some commands end"},
	{"; commit some, and release those that have ended", "; let some commands end"},
	{"; revoke some", "; take some back (capd attenuate --list, --revoke)"},
	{" in State", " with --state"},
	{" in Socket.Dir", " with --socket-dir"},
	{"; see Socket.Dir", "; see --socket-dir"},
	{"; listen at every address, and set Advertise to the name by which guests reach this host", "; listen at every address, and say with --advertise how guests reach this one"},
	{", as a snapshot answers them", ", as capd snapshot prints them"},
	{", as a diff answers them", ", as capd diff prints them"},
	{"; compare two revisions, or mount it with ?writable", "; compare two revisions with --from and --to, or mount it with ?writable"},
	{"; name an author, or set user.name and user.email", "; name somebody with --author, or set user.name and user.email"},
	{"commit its changes instead", "commit its changes with capd commit instead"},
	{"; give it more time", "; give it more with --time"},
	{" of memory and was stopped; give it more", " of memory and was stopped; give it more with --memory"},
	{" of disk and was stopped; give it more", " of disk and was stopped; give it more with --disk"},
	{"; commit to another branch, and merge it there", "; commit to another branch with --ref BRANCH, and merge it there"},
	{"; say which branch gets the commit", "; say with --ref which branch gets the commit"},
	{"; become that user, or name another state directory", "; become that user, or name another directory with --state"},
	{"; start one, or name another state directory", "; start one with capd serve, or name another with --state"},
	{", or say that the grant goes beyond the default", ", or say --beyond-default (in the configuration: beyondDefault: true)"},
	{"; grant a root by itself", "; grant a root by itself with --root"},
	{"; grant one of them by itself", "; grant one of them by itself with --root"},
	{"; grant another root", "; grant another with --root"},
	{"; name the root", "; name the root with --root"},
	{"; name fewer rights", "; name fewer with --rights"},
	{"; the configuration declares them under roots", "; capd roots lists them"},
	{"; connect again", "; is the host still running?"},
}

// aboutLimit matches a message about a limit. It names the limit's kind, and may end with who can
// help.
var aboutLimit = regexp.MustCompile(`^(.* \(limit (\w+)\).*)(, or|;) (ask its giver for more|try again later)(, or move a smaller part)?$`)

// makesAnother matches a message about grants that have ended. It names their guest.
var makesAnother = regexp.MustCompile(`^(.*); grant\(([^()]+)\) makes another$`)

// unlocks matches a message about a lock. It names the guest.
var unlocks = regexp.MustCompile(`^(.*); setWritable\(([^()]+), true\) unlocks them$`)

// limitHelp returns the command line's end of a message about a limit of kind.
func limitHelp(kind, said string) string {
	if said == "try again later" {
		return "try again later; capd status --guests shows the operator who holds them"
	}
	return "ask whoever runs the host for more: capd limit GUEST " + kind + "=N"
}

// inWords returns a message in the command line's words.
func inWords(msg string) string {
	if rest, ok := strings.CutSuffix(msg, unchanged); ok {
		return inWords(rest) + unchanged
	}
	if m := makesAnother.FindStringSubmatch(msg); m != nil {
		return m[1] + "; capd grant " + m[2] + " makes another"
	}
	if m := unlocks.FindStringSubmatch(msg); m != nil {
		return m[1] + "; capd set-writable " + m[2] + " true unlocks them"
	}
	if m := aboutLimit.FindStringSubmatch(msg); m != nil {
		return inWords(m[1]) + m[3] + " " + limitHelp(m[2], m[4]) + m[5]
	}
	for _, w := range words {
		if rest, ok := strings.CutSuffix(msg, w.said); ok {
			return inWords(rest) + w.here
		}
	}
	return msg
}

// unchanged ends a message about a change of several paths.
const unchanged = "; nothing was changed"

// forRoom ends a message about a full disk, for a guest.
const forRoom = "; remove something or ask the host for room"

// toOperator returns err in words for the host's operator, who would otherwise be told to
// ask the host.
func toOperator(err error) error {
	return reworded(err, func(msg string) string {
		if text, ok := strings.CutSuffix(msg, forRoom); ok {
			return text + "; make room on the disks of the state directory and of what is mounted, and try again"
		}
		return ofTree(msg)
	})
}

// lists ends a message about a name that nothing has.
const lists = "; list() shows what is here"

// ofTree returns msg for the host's operator, whose commands need no locator.
func ofTree(msg string) string {
	if text, ok := strings.CutSuffix(msg, lists); ok {
		return text + "; capd mounts lists what is mounted"
	}
	return msg
}

// belowMissing returns err, with which a command failed that makes path, with what to do about a missing directory.
func belowMissing(path string, err error) error {
	if vfs.CodeOf(err) != vfs.NotFound || !strings.Contains(path, "/") {
		return err
	}
	return instead(err, lists, "; capd mkdir -p DIR makes directories")
}

// taken ends a message about a name that something has already.
const taken = "; remove it first or choose another"

// instead returns err with the end here of its message, if it ends with said.
func instead(err error, said, here string) error {
	return reworded(err, func(msg string) string {
		if text, ok := strings.CutSuffix(msg, said); ok {
			return text + here
		}
		return msg
	})
}

// speak returns err in the command line's words, if it has a code.
func speak(err error) error { return reworded(err, inWords) }

// reworded returns err with another message, if it has a code and the message changes.
func reworded(err error, change func(msg string) string) error {
	ve, ok := errors.AsType[*vfs.Error](err)
	if !ok || change(ve.Msg) == ve.Msg {
		return err
	}
	said := *ve
	said.Msg = change(ve.Msg)
	return &said
}
