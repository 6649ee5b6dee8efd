package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"capd/state"
	"capd/vfs"
)

// manCommand writes manual pages (man(7)) from the texts of --help, so they are
// always up to date.
type manCommand struct {
	Command []string `arg:"" optional:"" help:"A command (default: capd itself)."`
	Dir     string   `placeholder:"DIR" help:"Write the page of every command to this directory, such as ~/.local/share/man/man1."`
}

func (manCommand) Help() string {
	return `Examples:
  capd man serve | man -l -
  capd man --dir ~/.local/share/man/man1`
}

func (c *manCommand) Run(e *env, k *kong.Context) error {
	if c.Dir != "" {
		return c.all(e, k.Model.Node)
	}
	n := k.Model.Node
	for _, name := range c.Command {
		i := slices.IndexFunc(n.Children, func(c *kong.Node) bool { return c.Name == name })
		if i < 0 {
			return vfs.Errorf(vfs.NotFound, "there is no command %q; see capd --help", strings.Join(c.Command, " "))
		}
		n = n.Children[i]
	}
	_, err := fmt.Fprint(e.stdout, page(n))
	return err
}

// all writes the pages of a command and of its subcommands.
func (c *manCommand) all(e *env, n *kong.Node) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return localError{"the directory cannot be made: " + state.Reason(err).Error()}
	}
	for _, n := range pagesOf(n) {
		name := filepath.Join(c.Dir, pageName(n)+".1")
		if err := os.WriteFile(name, []byte(page(n)), 0o644); err != nil {
			return localError{fmt.Sprintf("%s cannot be written: %v", vfs.Printable(name), state.Reason(err))}
		}
	}
	return nil
}

// pagesOf returns a command and everything below it.
func pagesOf(n *kong.Node) []*kong.Node {
	all := []*kong.Node{n}
	for _, c := range n.Children {
		all = append(all, pagesOf(c)...)
	}
	return all
}

func pageName(n *kong.Node) string {
	return strings.ReplaceAll(n.FullPath(), " ", "-")
}

// page returns the manual page of one command.
func page(n *kong.Node) string {
	var r roff
	r.macro("TH", strings.ToUpper(pageName(n)), "1", "", "capd", "capd")
	r.macro("SH", "NAME")
	brief, more, _ := strings.Cut(n.Help, "\n\n")
	r.text(pageName(n) + ` \- ` + escaped(strings.TrimSuffix(brief, ".")))
	r.macro("SH", "SYNOPSIS")
	r.text(bold("capd") + " " + escaped(strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(n.Summary(), "\n", " "), "capd"))))
	r.macro("SH", "DESCRIPTION")
	if more == "" {
		more = brief
	}
	about, examples, _ := strings.Cut(n.Detail, "Examples:\n")
	r.paragraphs(more)
	r.paragraphs(about)
	r.children(n)
	r.values(n)
	if examples != "" {
		r.macro("SH", "EXAMPLES")
		r.literal(examples)
	}
	r.macro("SH", "EXIT STATUS")
	r.paragraphs("0 when all was done and printed, 1 when something was refused or cannot be printed, 2 for a wrong command line, 130 after an interrupt, 141 when the reader of a list wanted no more.")
	if n.Parent != nil {
		r.macro("SH", "SEE ALSO")
		r.text(bold(pageName(n.Parent)) + "(1)")
	}
	return r.String()
}

// roff builds a page.
type roff struct{ strings.Builder }

func (r *roff) macro(name string, args ...string) {
	r.WriteString("." + name)
	for _, a := range args {
		r.WriteString(` "` + strings.ReplaceAll(escaped(a), `"`, `\(dq`) + `"`)
	}
	r.WriteString("\n")
}

// text writes a line that is already escaped.
func (r *roff) text(line string) {
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	r.WriteString(line + "\n")
}

// paragraphs writes text as --help shows it: indented lines are kept as they are.
func (r *roff) paragraphs(s string) {
	for i, p := range strings.Split(strings.Trim(s, "\n"), "\n\n") {
		if p == "" {
			continue
		}
		if i > 0 {
			r.macro("PP")
		}
		if strings.HasPrefix(p, " ") {
			r.literal(p)
			continue
		}
		for line := range strings.Lines(p) {
			r.text(escaped(strings.TrimSpace(line)))
		}
	}
}

func (r *roff) literal(s string) {
	r.macro("RS", "4")
	r.macro("nf")
	for line := range strings.Lines(strings.TrimRight(s, "\n")) {
		line = strings.TrimPrefix(strings.TrimRight(line, "\n"), "  ")
		if line == "" {
			line = `\&`
		} else {
			line = escaped(line)
		}
		r.text(line)
	}
	r.macro("fi")
	r.macro("RE")
}

// children writes the commands below n.
func (r *roff) children(n *kong.Node) {
	if len(n.Children) == 0 {
		return
	}
	r.macro("SH", "COMMANDS")
	for _, c := range n.Children {
		r.macro("TP")
		r.text(bold(c.FullPath()) + " (see " + bold(pageName(c)) + "(1))")
		r.text(escaped(c.Help))
	}
}

// values writes the arguments and the flags of n.
func (r *roff) values(n *kong.Node) {
	if len(n.Positional) > 0 {
		r.macro("SH", "ARGUMENTS")
	}
	for _, v := range n.Positional {
		r.macro("TP")
		r.text(escaped(v.Summary()))
		r.text(escaped(v.Help))
	}
	r.macro("SH", "OPTIONS")
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			r.macro("TP")
			name := bold("--" + f.Name)
			if f.Short != 0 {
				name = bold("-"+string(f.Short)) + ", " + name
			}
			if !f.IsBool() {
				name += "=" + escaped(f.FormatPlaceHolder())
			}
			r.text(name)
			text := f.Help
			for _, v := range f.Envs {
				text += " [$" + v + "]"
			}
			r.text(escaped(text))
		}
	}
}

func bold(s string) string { return `\fB` + escaped(s) + `\fR` }

// escaped returns s with everything escaped that roff would interpret.
func escaped(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "…", `\[u2026]`, "\n", " ").Replace(s)
}
