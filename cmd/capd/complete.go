package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"capd/client"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
)

// completing is a hidden command by which a shell asks how it can complete the last of
// some words. The answer has one candidate a line, with a tab and an explanation if
// there is one. It is ":files" or ":dirs" alone if the shell itself knows the
// candidates.
const completing = "__complete"

// completeTimeout bounds requests to a host while somebody waits for completion.
const completeTimeout = 2 * time.Second

// valueKinds says what a value is, by its command and name, or by its name in all
// commands.
var valueKinds = map[string]string{
	"cap": "files", "config": "files", "file": "files", "bind": "files",
	"state": "dirs", "store": "dirs", "socket-dir": "dirs", "dir": "dirs",

	"ls path": "path", "tree path": "path", "cat path": "path", "put path": "path", "patch path": "path", "append path": "path", "stat path": "path",
	"mkdir path": "path", "rm path": "path", "mv from": "path", "mv to": "path", "cp from": "path", "cp to": "path", "extract archive": "path", "extract dir": "path", "attenuate path": "path", "glob pattern": "path",
	"get path": "path", "set path": "path", "history path": "path", "changes path": "path", "undo in": "path", "history guest": "guest", "undo guest": "guest",

	"revoke guest": "guest", "set-writable guest": "guest", "limit guest": "guest", "ask id": "ask", "limit kind=n": "limit", "grant limit": "limit", "grant root": "root", "invites revoke": "invite",
	"unmount path": "mount", "diff path": "mount", "apply paths": "mount", "revert paths": "mount", "commit path": "mount", "snapshot path": "mount",
	"run command": "files", "help method": "command", "man command": "command",
}

// complete answers a shell. On any error it answers nothing.
func complete(e *env, app *kong.Application, words []string) int {
	if len(words) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(e, completeTimeout)
	defer cancel()
	w := wanted{e: newEnv(ctx, e.stdin, io.Discard, io.Discard), app: app, node: app.Node, flags: map[string]string{}}
	defer w.e.close()
	for _, line := range w.answer(joined(words)) {
		fmt.Fprintln(e.stdout, line)
	}
	_ = e.stdout.Flush()
	return 0
}

// joined returns the words as the program would get them. bash gives --flag=value as
// three words.
func joined(words []string) []string {
	var all []string
	for i, word := range words {
		if word == "=" && i > 0 && strings.HasPrefix(words[i-1], "--") {
			if i < len(words)-1 {
				continue
			}
			word = ""
		}
		all = append(all, word)
	}
	return all
}

// wanted is what the last word of a command line can be.
type wanted struct {
	e     *env
	app   *kong.Application
	node  *kong.Node
	flags map[string]string // flags before it that have a value
	args  int               // number of positional arguments before it
	only  bool              // after --
	whose *kong.Flag        // the flag whose value comes next
}

func (w *wanted) answer(words []string) []string {
	last := len(words) - 1
	for _, word := range words[:last] {
		w.pass(word)
	}
	word := words[last]
	switch {
	case w.whose != nil:
		return w.value(w.whose.Value, word)
	case !w.only && strings.HasPrefix(word, "--") && strings.Contains(word, "="):
		name, value, _ := strings.Cut(word, "=")
		f := w.flag(name)
		if f == nil {
			return nil
		}
		all := w.value(f.Value, value)
		for i := range all {
			if !strings.HasPrefix(all[i], ":") {
				all[i] = name + "=" + all[i]
			}
		}
		return all
	case !w.only && strings.HasPrefix(word, "-"):
		return matching(w.flagNames(), word)
	case len(w.node.Children) > 0 && w.args > 0: // there is no such command
		return nil
	case len(w.node.Children) > 0:
		return matching(childNames(w.node), word)
	case len(w.node.Positional) > 0:
		return w.value(w.node.Positional[min(w.args, len(w.node.Positional)-1)], word)
	}
	return nil
}

// pass notes a word before the last.
func (w *wanted) pass(word string) {
	name, value, given := strings.Cut(word, "=")
	switch {
	case w.whose != nil:
		w.flags[w.whose.Name], w.whose = word, nil
	case w.only:
		w.args++
	case word == "--":
		w.only = true
	case strings.HasPrefix(word, "-") && word != "-":
		f := w.flag(name)
		if f == nil || f.IsBool() {
			return
		}
		if given {
			w.flags[f.Name] = value
		} else {
			w.whose = f
		}
	default:
		i := slices.IndexFunc(w.node.Children, func(c *kong.Node) bool { return c.Name == word })
		if i < 0 {
			w.args++
			return
		}
		w.node = w.node.Children[i]
	}
}

// allFlags returns the flags of the command. Before there is a command it returns those
// that may come first.
func (w *wanted) allFlags() (all []*kong.Flag) {
	node := w.node
	if node == w.app.Node {
		for _, c := range w.app.Children {
			for _, f := range c.Flags {
				if (f.Name == "cap" || f.Name == "state") && !slices.ContainsFunc(all, func(g *kong.Flag) bool { return g.Name == f.Name }) {
					all = append(all, f)
				}
			}
		}
	}
	return append(all, slices.Concat(node.AllFlags(true)...)...)
}

func (w *wanted) flag(name string) *kong.Flag {
	for _, f := range w.allFlags() {
		if "--"+f.Name == name || f.Short != 0 && "-"+string(f.Short) == name {
			return f
		}
	}
	return nil
}

func (w *wanted) flagNames() (all []string) {
	for _, f := range w.allFlags() {
		all = append(all, "--"+f.Name+"\t"+firstLine(f.Help))
	}
	return all
}

func childNames(n *kong.Node) (all []string) {
	for _, c := range n.Children {
		all = append(all, c.Name+"\t"+firstLine(c.Help))
	}
	return all
}

// matching returns the candidates that begin with word.
func matching(all []string, word string) []string {
	return slices.DeleteFunc(all, func(c string) bool { return !strings.HasPrefix(c, word) })
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// value returns candidates for a value.
func (w *wanted) value(v *kong.Value, word string) []string {
	if v.Enum != "" {
		return matching(v.EnumSlice(), word)
	}
	kind := valueKinds[w.node.Name+" "+v.Name]
	if kind == "" {
		kind = valueKinds[v.Name]
	}
	switch kind {
	case "files", "dirs":
		return []string{":" + kind}
	case "command":
		return matching(childNames(w.app.Node), word)
	case "path":
		return matching(w.paths(word), word)
	case "guest":
		return matching(w.guests(), word)
	case "ask":
		return matching(w.asks(), word)
	case "invite":
		return matching(w.invites(), word)
	case "limit":
		return matching(limitWords(), word)
	case "mount":
		return matching(w.mounts(), word)
	case "root":
		return matching(w.roots(), word)
	}
	return nil
}

// paths returns paths that the capability reaches.
func (w *wanted) paths(word string) (all []string) {
	cut := strings.LastIndexByte(word, '/') + 1
	_, n, _ := w.cap().node(w.e, trimPath(word[:cut]), true)
	d, ok := n.(*client.Dir)
	if !ok {
		return nil
	}
	for entry, err := range d.List(w.e) {
		if err != nil {
			break
		}
		if vfs.Printable(entry.Name) != entry.Name {
			continue
		}
		path := word[:cut] + entry.Name
		if entry.Kind == vfs.DirKind {
			path += "/"
		}
		all = append(all, path)
	}
	return all
}

func (w *wanted) cap() capFlag { return capFlag{Cap: w.given("cap", "CAPD_CAP")} }

func (w *wanted) state() stateFlag { return stateFlag{State: w.given("state", "CAPD_STATE")} }

// given returns the value of a flag before the word, or of its variable.
func (w *wanted) given(flag, variable string) string {
	if given, ok := w.flags[flag]; ok {
		return given
	}
	return os.Getenv(variable)
}

// invites returns the invitations that are live, with who was invited.
func (w *wanted) invites() (all []string) {
	con, err := w.state().console(w.e)
	if err != nil {
		return nil
	}
	invites, _ := con.Invites(w.e)
	for _, i := range invites {
		if i.State == operator.Active {
			all = append(all, i.ID+"\t"+i.Subject.Name())
		}
	}
	return all
}

// asks returns the requests that wait for an approval.
func (w *wanted) asks() (all []string) {
	con, err := w.state().console(w.e)
	if err != nil {
		return nil
	}
	asks, _ := con.Asks(w.e, false)
	for _, a := range asks {
		all = append(all, shortID(a.ID)+"\t"+a.Guest+": "+changeOf(a.Operation, a.Path, a.To))
	}
	return all
}

// guests returns the names of guests with grants, and the ids of grants.
func (w *wanted) guests() (all []string) {
	con, err := w.state().console(w.e)
	if err != nil {
		return nil
	}
	gs, _ := con.Grants(w.e)
	for _, g := range gs {
		if g.State == operator.Revoked {
			continue
		}
		if !slices.Contains(all, g.Guest) {
			all = append(all, g.Guest)
		}
		all = append(all, g.ID+"\t"+g.Guest)
	}
	return all
}

// roots returns the ids of roots.
func (w *wanted) roots() (all []string) {
	con, err := w.state().console(w.e)
	if err != nil {
		return nil
	}
	roots, _ := con.Roots(w.e)
	for _, r := range roots {
		all = append(all, r.ID+"\t"+r.Kind)
	}
	return all
}

// limitWords returns the kinds of limits.
func limitWords() (all []string) {
	for k := range meter.Kinds {
		all = append(all, k.String()+"=\t"+k.Noun())
	}
	return all
}

// mounts returns the paths of mounts.
func (w *wanted) mounts() (all []string) {
	fs, err := w.state().virtualFS(w.e)
	if err != nil {
		return nil
	}
	mounts, _ := fs.Mounts(w.e)
	for _, m := range mounts {
		if m.Path != "" && vfs.Printable(m.Path) == m.Path {
			all = append(all, m.Path+"\t"+vfs.Printable(m.URL))
		}
	}
	return all
}
