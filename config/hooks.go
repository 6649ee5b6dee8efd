package config

import (
	"regexp"
	"slices"

	"github.com/goccy/go-yaml/ast"

	"capd/operator"
)

var (
	hookName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	absolute = regexp.MustCompile(`^(?:/|[A-Za-z]:[/\\])`) // also on Windows
)

// hook reads a hook that is a program.
func (r *reader) hook(n ast.Node, others map[string]place) operator.Hook {
	h := operator.Hook{Source: r.where(placeOf(n))}
	r.mapping(n, "a hook",
		key{"name", "a name, such as name: lint", r.text("name", &h.Name, func(at place, s string) {
			other, taken := others[s]
			switch {
			case !hookName.MatchString(s):
				r.mistake(at, "a hook cannot be called %s; write 1 to 64 of a-z 0-9 . _ -, the first a letter or a digit", quote(s))
			case taken:
				r.mistake(at, "the hook in line %d is called %s too; write another name", other.line, quote(s))
			default:
				others[s] = at
			}
		})},
		key{"command", "the program that is run, such as command: [/usr/local/bin/lint]", r.command(&h.Command)},
		key{"before", "", r.flag("before", &h.Before)},
		key{"after", "", r.flag("after", &h.After)},
		key{"operations", "", r.texts("operations", &h.Operations, func(at place, s string) {
			if changes := []string{"write", "delete", "move"}; !slices.Contains(changes, s) {
				r.mistake(at, "%s is no change%s; write some of write, delete, move", quote(s), didYouMean(s, changes))
			}
		})},
		key{"patterns", "", r.texts("patterns", &h.Patterns, r.checkPattern)},
		key{"subject", "", r.text("subject", &h.Subject, r.checkOneSubject)},
		key{"observe", "", r.flag("observe", &h.Observe)},
	)
	switch {
	case !h.Before && !h.After:
		r.mistake(placeOf(n), "a hook runs neither before a change nor after it; write before: true, after: true or both")
	case h.Observe && !h.Before:
		r.mistake(placeOf(n), "observe is about what a hook answers before a change; leave it out, or write before: true")
	}
	return h
}

// command reads a program and its arguments.
func (r *reader) command(into *[]string) func(ast.Node) {
	return func(n ast.Node) {
		r.texts("command", into, func(at place, s string) {
			if len(*into) == 0 && !absolute.MatchString(s) {
				r.mistake(at, "the program is %s; write its absolute path, such as /usr/local/bin/lint", quote(s))
			}
		})(n)
		if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
			r.mistake(placeOf(n), "command is empty; write the program and its arguments, such as [/usr/local/bin/lint]")
		}
	}
}
