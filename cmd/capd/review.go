package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"capd/client/console"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

// mounted returns the mount that contains paths, and the paths relative to it; nil means
// all of it. If several mounts contain a path, the innermost counts.
func mounted(e *env, fs *console.VirtualFs, paths []string) (mount string, in []string, err error) {
	all, err := fs.Mounts(e)
	if err != nil {
		return "", nil, err
	}
	at := -1
	for _, path := range paths {
		path = trimPath(path)
		best := innermost(all, path)
		switch {
		case best < 0:
			return "", nil, vfs.At(path, vfs.Errorf(vfs.NotFound, "nothing is mounted here; capd mounts lists what is"))
		case at >= 0 && best != at:
			return "", nil, vfs.Errorf(vfs.Invalid, "%s and %s are in two mounts; name those of one at a time", paths[0], path)
		}
		at = best
		in = append(in, strings.TrimPrefix(strings.TrimPrefix(path, all[at].Path), "/"))
	}
	if slices.Contains(in, "") {
		in = nil
	}
	return all[at].Path, in, nil
}

// innermost returns the index of the innermost mount that contains path, or -1.
func innermost(all []operator.Mount, path string) int {
	best := -1
	for i, m := range all {
		if (m.Path == "" || path == m.Path || strings.HasPrefix(path, m.Path+"/")) && (best < 0 || len(m.Path) > len(all[best].Path)) {
			best = i
		}
	}
	return best
}

// onMount runs do on the running host's mount that contains paths.
func (f stateFlag) onMount(e *env, paths []string, do func(e *env, fs *console.VirtualFs, mount string, in []string) error) error {
	fs, err := f.virtualFS(e)
	if err != nil {
		return err
	}
	mount, in, err := mounted(e, fs, paths)
	if err != nil {
		return err
	}
	return do(e, fs, mount, in)
}

type diffCommand struct {
	Path string `arg:"" help:"A mount, or a path in it."`
	From string `placeholder:"REV" help:"Compare this revision of a git mount with --to instead."`
	To   string `placeholder:"REV" help:"The other revision (default: what the mount shows)."`
	Stat bool   `help:"Show only the paths."`
	JSON bool   `name:"json" help:"Print a JSON object, without text unless --text."`
	Text bool   `help:"With --json: the unified text too."`
	stateFlag
}

func (diffCommand) Help() string {
	return `An overlay is compared with the tree below it, a writable git mount with its commit. Paths begin at
the mount. Output to a file or a program is a patch for git apply. If the patch cannot have
everything (git has no empty directories, and the text of very long files is left out), diff says so
and exits with 1.

Examples:
  capd diff draft
  capd diff draft/src --stat
  capd diff draft | git apply
  capd diff ref/main --from v1.0 --to main
  capd diff draft --json | jq -r '.changes[].path'
  capd apply draft --if "$(capd diff draft --json | jq -r .review)"
  capd commit work -m 'Fix it' --if "$(capd diff work --json | jq -r .review)"`
}

// diffJSON is a diff as --json prints it.
type diffJSON struct {
	Review  operator.Review `json:"review,omitzero"` // for apply --if and commit --if
	Changes []diff.Change   `json:"changes"`
}

func (c *diffCommand) Run(e *env) error {
	return c.onMount(e, []string{c.Path}, c.diff)
}

func (c *diffCommand) diff(e *env, fs *console.VirtualFs, mount string, paths []string) error {
	o := operator.DiffOptions{Paths: paths, From: c.From, To: c.To, Text: !c.Stat && !c.JSON || c.Text}
	out := []diff.Change{}
	show := newChanges(e.stdout)
	var late error
	review, err := fs.Diff(e, mount, o, "", func(ch diff.Change) bool {
		if c.JSON {
			out = append(out, ch)
			return true
		}
		late = show.change(ch)
		return late == nil
	})
	switch {
	case err != nil:
		return err
	case late != nil:
		return late
	case c.JSON:
		return printJSON(e.stdout, diffJSON{review, out})
	case show.n == 0:
		fmt.Fprintln(e.stderr, "no changes")
	case c.From == "" && c.To == "":
		if err := c.next(e, fs, mount, paths == nil, review); err != nil {
			return err
		}
	}
	return show.whole()
}

// next prints what can be done with the changes. whole says that they are all of the mount's.
func (c *diffCommand) next(e *env, fs *console.VirtualFs, mount string, whole bool, review operator.Review) error {
	all, err := fs.Mounts(e)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(m operator.Mount) bool { return m.Path == mount && m.Kind == "overlay" }) {
		fmt.Fprintf(e.stderr, "to apply just this: %s apply %s --if %s%s\n", self(), operator.Quote(trimPath(c.Path)), review, c.flag())
	} else {
		what, only := "all that waits here", ""
		if whole {
			what, only = "just this", " --if "+review.String()
		}
		fmt.Fprintf(e.stderr, "to commit %s: %s commit %s -m MESSAGE%s%s, with --ref BRANCH for another branch\n", what, self(), operator.Quote(mount), only, c.flag())
	}
	return nil
}

// changes prints changes for people.
type changes struct {
	w io.Writer
	p painter
	n int

	screen bool     // escape what acts on a terminal, and show no binary file; otherwise the text is a patch
	most   int      // how many lines of a change's text to show, of maxLine bytes each; 0: all
	lacks  []string // what is not in the text
}

// Bounds on what capd run shows of a change.
const (
	mostLines = 400
	maxLine   = 2000 // bytes
)

func newChanges(w io.Writer) *changes {
	return &changes{w: w, p: newPainter(w), screen: isTerminal(w)}
}

// newOutline is newChanges for somebody who has the files: it shows the first lines of
// each, and no binary content.
func newOutline(w io.Writer) *changes {
	s := newChanges(w)
	s.screen, s.most = true, mostLines
	return s
}

var marks = map[diff.Kind]string{
	diff.Added: "A", diff.Removed: "D", diff.Modified: "M", diff.Renamed: "R", diff.Mode: "X", diff.Type: "T",
}

// change prints one change: its line, and its text below.
func (s *changes) change(c diff.Change) error {
	s.n++
	line := marks[c.Kind] + " "
	if c.From != "" {
		line += vfs.Printable(c.From) + " -> "
	}
	line += vfs.Printable(c.Path)
	switch {
	case c.Kind == diff.Mode && c.Is.Exec:
		line += " (executable)"
	case c.Kind == diff.Mode:
		line += " (not executable)"
	}
	switch c.Kind {
	case diff.Added:
		line = s.p.good(line)
	case diff.Removed:
		line = s.p.bad(line)
	}
	if _, err := fmt.Fprintln(s.w, line); err != nil {
		return err
	}
	if c.Lacks != "" {
		s.lacks = append(s.lacks, c.Lacks)
		if _, err := fmt.Fprintln(s.w, s.p.faint("# not in the text: "+vfs.Printable(c.Lacks))); err != nil {
			return err
		}
	}
	return s.text(c.Text)
}

// text prints the unified text of a change.
func (s *changes) text(text string) error {
	binary, n := false, 0
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if binary = s.screen && (binary && !strings.HasPrefix(l, "diff ") || l == "GIT binary patch"); binary {
			if l != "GIT binary patch" {
				continue
			}
			l = "(binary)"
		}
		if n++; s.most > 0 && n > s.most {
			continue
		}
		if s.most > 0 && len(l) > maxLine {
			l = fmt.Sprintf("%s (and %s)", l[:maxLine], count(len(l)-maxLine, "more byte"))
		}
		if s.screen {
			l = printableLine(l)
		}
		switch {
		case strings.HasPrefix(l, "+"):
			l = s.p.good(l)
		case strings.HasPrefix(l, "-"):
			l = s.p.bad(l)
		case strings.HasPrefix(l, "@@"):
			l = s.p.link(l)
		}
		if _, err := fmt.Fprintln(s.w, l); err != nil {
			return err
		}
	}
	if s.most > 0 && n > s.most {
		_, err := fmt.Fprintln(s.w, s.p.faint("("+count(n-s.most, "more line")+")"))
		return err
	}
	return nil
}

// whole answers unsupported if git apply would make something else of what was printed.
func (s *changes) whole() error {
	if s.screen || len(s.lacks) == 0 {
		return nil
	}
	return vfs.Errorf(vfs.Unsupported, "the patch does not have everything: %s", strings.Join(s.lacks[:min(len(s.lacks), 10)], "; "))
}

// printableLine returns a guest's line of text with everything escaped that acts on a
// terminal.
func printableLine(l string) string {
	parts := strings.Split(l, "\t")
	for i, part := range parts {
		parts[i] = vfs.Printable(part)
	}
	return strings.Join(parts, "\t")
}
