package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"capd/client/console"
	"capd/vfs"
	"capd/virtualfs"
)

// mounted is the mount that paths lie in, with the paths in its own terms; nil: all
// of it. Of several mounts around a path the innermost counts.
func mounted(e *env, fs *console.VirtualFs, paths []string) (mount string, in []string, err error) {
	all, err := fs.Mounts(e)
	if err != nil {
		return "", nil, err
	}
	at := -1
	for _, path := range paths {
		path = trimPath(path)
		best := -1
		for i, m := range all {
			if (m.Path == "" || path == m.Path || strings.HasPrefix(path, m.Path+"/")) && (best < 0 || len(m.Path) > len(all[best].Path)) {
				best = i
			}
		}
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

type diffCommand struct {
	Path string `arg:"" help:"A mount, or a path in it."`
	From string `placeholder:"REV" help:"Compare this revision of a git mount with --to instead."`
	To   string `placeholder:"REV" help:"The other revision (default: what the mount shows)."`
	Stat bool   `help:"Show the paths alone."`
	JSON bool   `name:"json" help:"Print a JSON array, without text unless --text."`
	Text bool   `help:"With --json: the unified text too."`
	stateFlag
}

func (diffCommand) Help() string {
	return `An overlay is compared with what lies beneath it, a writable git mount with its commit. Paths
begin at the mount.

Examples:
  capd diff draft
  capd diff draft/src --stat
  capd diff ref/main --from v1.0 --to main
  capd diff draft --json | jq -r '.[].path'`
}

// changeJSON is a change as --json prints it.
type changeJSON struct {
	Path string               `json:"path"`
	From string               `json:"from,omitempty"`
	Kind virtualfs.ChangeKind `json:"kind"`
	Text string               `json:"text,omitempty"`
}

func (c *diffCommand) Run(e *env) error {
	con, fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	defer con.Close()
	mount, paths, err := mounted(e, fs, []string{c.Path})
	if err != nil {
		return err
	}
	o := virtualfs.DiffOptions{Paths: paths, From: c.From, To: c.To, Text: !c.Stat && !c.JSON || c.Text}
	out := []changeJSON{}
	show := newChanges(e.stdout)
	var review virtualfs.Reviewer
	var late error
	err = fs.Diff(e, mount, o, "", func(ch virtualfs.Change) bool {
		review.Add(ch)
		if c.JSON {
			out = append(out, changeJSON{ch.Path, ch.From, ch.Kind, ch.Text})
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
		return printJSON(e.stdout, out)
	case show.n == 0:
		fmt.Fprintln(e.stderr, "no changes")
	case c.From == "" && c.To == "":
		fmt.Fprintf(e.stderr, "to apply just this: %s apply %s --if %s%s\n", self(), shellQuote(trimPath(c.Path)), review.Review(), c.flag())
	}
	return nil
}

// changes shows changes to people.
type changes struct {
	w io.Writer
	p painter
	n int

	screen bool // what would act on a terminal is escaped; otherwise the text is a patch
}

func newChanges(w io.Writer) *changes {
	return &changes{w: w, p: newPainter(w), screen: isTerminal(w)}
}

var marks = map[virtualfs.ChangeKind]string{
	virtualfs.Added: "A", virtualfs.Removed: "D", virtualfs.Modified: "M", virtualfs.Renamed: "R", virtualfs.Mode: "X", virtualfs.Type: "T",
}

// change shows one: its line, and its text below.
func (s *changes) change(c virtualfs.Change) error {
	s.n++
	line := marks[c.Kind] + " "
	if c.From != "" {
		line += vfs.Printable(c.From) + " -> "
	}
	line += vfs.Printable(c.Path)
	switch {
	case c.Kind == virtualfs.Mode && c.Is.Exec:
		line += " (executable)"
	case c.Kind == virtualfs.Mode:
		line += " (not executable)"
	}
	switch c.Kind {
	case virtualfs.Added:
		line = s.p.good(line)
	case virtualfs.Removed:
		line = s.p.bad(line)
	}
	if _, err := fmt.Fprintln(s.w, line); err != nil {
		return err
	}
	for l := range strings.Lines(c.Text) {
		l = strings.TrimSuffix(l, "\n")
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
	return nil
}

// printableLine is a guest's line of text, in which nothing acts on a terminal.
func printableLine(l string) string {
	parts := strings.Split(l, "\t")
	for i, part := range parts {
		parts[i] = vfs.Printable(part)
	}
	return strings.Join(parts, "\t")
}

type applyCommand struct {
	Paths []string `arg:"" help:"An overlay's mount, or paths in it."`
	If    string   `placeholder:"REVIEW" help:"Only what capd diff showed, which printed this at its end."`
	Undo  string   `placeholder:"ID" help:"Take the apply with this id back; its changes wait again."`
	stateFlag
}

func (applyCommand) Help() string {
	return `Lets what was written to an overlay into what lies beneath it: all of it or nothing. When something
beneath has changed meanwhile, it lists every such path and changes nothing.

Examples:
  capd apply draft
  capd apply draft/src/main.go draft/README.md
  capd apply draft --if 5f0c…        nothing that came since that diff
  capd apply draft --undo ID`
}

func (c *applyCommand) Run(e *env) error {
	con, fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	defer con.Close()
	mount, paths, err := mounted(e, fs, c.Paths)
	if err != nil {
		return err
	}
	if c.Undo != "" {
		if err := fs.Undo(e, mount, c.Undo); err != nil {
			return err
		}
		fmt.Fprintln(e.stdout, "undone; the changes wait in the overlay again")
		return nil
	}
	o := virtualfs.ApplyOptions{Paths: paths}
	if c.If != "" {
		if o.If, err = virtualfs.ParseReview(c.If); err != nil {
			return err
		}
	}
	p := newProgress(e, nil, "applied")
	defer p.end()
	a, err := fs.Apply(e, mount, o, p.count)
	if err != nil {
		return err
	}
	p.end()
	if a.Changes == 0 {
		fmt.Fprintln(e.stdout, "nothing to apply")
		return nil
	}
	fmt.Fprintf(e.stdout, "applied %s; to take it back: %s apply %s --undo %s%s\n",
		count(a.Changes, "change"), self(), shellQuote(mount), a.ID, c.flag())
	return nil
}

// flag repeats --state for a command that is shown.
func (f stateFlag) flag() string {
	if f.State == "" {
		return ""
	}
	return " --state " + shellQuote(f.State)
}

type revertCommand struct {
	Paths []string `arg:"" help:"An overlay's or a git mount's path, or paths in it."`
	stateFlag
}

func (revertCommand) Help() string {
	return `Drops what was written there and not applied or committed. It cannot be undone.

Examples:
  capd revert draft/src
  capd revert draft`
}

func (c *revertCommand) Run(e *env) error {
	con, fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	defer con.Close()
	mount, paths, err := mounted(e, fs, c.Paths)
	if err != nil {
		return err
	}
	n, err := fs.Revert(e, mount, paths)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "reverted %s\n", count(n, "change"))
	return nil
}

type commitCommand struct {
	Path    string `arg:"" help:"A git mount that is writable, or an overlay on one."`
	Message string `short:"m" required:"" help:"What was changed, and why."`
	Author  string `placeholder:"NAME <EMAIL>" help:"Who changed it (default: as the repository's configuration has it)."`
	Ref     string `placeholder:"BRANCH" help:"The branch that gets the commit; a new one is made (default: the mount's own)."`
	Old     string `placeholder:"COMMIT" help:"Only if the branch points here (default: what the mount shows)."`
	stateFlag
}

func (commitCommand) Help() string {
	return `The working tree, the index and every other branch stay as they are. What an overlay holds is committed
once it was applied. It prints the commit's id.

Examples:
  capd commit draft -m 'Say how to start' --ref agent/start
  capd commit ref/main -m 'Correct the date' --author 'Ada <ada@example.org>'`
}

func (c *commitCommand) Run(e *env) error {
	name, email, err := author(c.Author)
	if err != nil {
		return err
	}
	con, fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	defer con.Close()
	mount, _, err := mounted(e, fs, []string{c.Path})
	if err != nil {
		return err
	}
	id, err := fs.Commit(e, mount, virtualfs.Commit{Message: c.Message, Author: name, Email: email, Ref: c.Ref, Old: c.Old})
	if err != nil {
		return err
	}
	fmt.Fprintln(e.stdout, id)
	return nil
}

// author reads NAME <EMAIL>.
func author(s string) (name, email string, err error) {
	if s == "" {
		return "", "", nil
	}
	name, rest, ok := strings.Cut(s, "<")
	email, closed := strings.CutSuffix(strings.TrimSpace(rest), ">")
	name = strings.TrimSpace(name)
	if !ok || !closed || name == "" || email == "" || strings.ContainsAny(name+email, "<>\n\x00") {
		return "", "", usageError{"--author is a name and an address, as in 'Ada <ada@example.org>'"}
	}
	return name, email, nil
}

type snapshotCommand struct {
	Path  string `arg:"" optional:"" help:"Any directory of the namespace (default: all of it)."`
	Store string `placeholder:"DIR" help:"The content-addressed store to put it in (default: the host's own)."`
	Pin   string `placeholder:"NAME" help:"Keep it under this name (default: its digest)."`
	stateFlag
}

func (snapshotCommand) Help() string {
	return `Prints the root's digest: 64 hexadecimal digits that stand for the whole tree, and are the same for the
same tree anywhere. capd mount PATH cas:#DIGEST shows it again. It is kept until capd snapshots
--forget. What the mounts withhold is not in it, nor are FIFOs, sockets and devices.

Examples:
  capd snapshot project
  capd mount before cas:#$(capd snapshot project)`
}

func (c *snapshotCommand) Run(e *env) error {
	con, fs, err := c.virtualFS(e)
	if err != nil {
		return err
	}
	defer con.Close()
	store := c.Store
	if store != "" && !strings.Contains(store, "://") {
		if store, err = absolutePath(store); err != nil {
			return err
		}
	}
	p := newProgress(e, nil, "stored")
	defer p.end()
	s, err := fs.Snapshot(e, trimPath(c.Path), store, c.Pin, p.count)
	if err != nil {
		return err
	}
	p.end()
	fmt.Fprintln(e.stdout, s.Digest)
	if isTerminal(e.stderr) {
		fmt.Fprintf(e.stderr, "%s, %s (%s of it new)\n", count(int(s.Files), "file"), bytesText(s.Bytes), bytesText(s.New))
	}
	return nil
}

func absolutePath(p string) (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	u := &virtualfs.URL{Scheme: "physical", Path: p}
	absolute(u, here)
	return u.Path, nil
}
