package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"capd/client"
	"capd/help"
	"capd/vfs"
)

// nameJSON is a name as --json prints it. RawName, in base64, is set for a name
// that is not UTF-8.
type nameJSON struct {
	Name    string `json:"name"`
	RawName []byte `json:"rawName,omitempty"`
	Type    string `json:"type"`
}

func asName(name string, k vfs.Kind) nameJSON {
	if utf8.ValidString(name) {
		return nameJSON{Name: name, Type: k.String()}
	}
	return nameJSON{vfs.Printable(name), []byte(name), k.String()}
}

// entryJSON is an entry as --json prints it.
type entryJSON struct {
	nameJSON
	SizeBytes  int64  `json:"sizeBytes"`
	ModifiedMs int64  `json:"modifiedMs"`
	Executable bool   `json:"executable"`
	Version    string `json:"version,omitempty"`
	Target     string `json:"target,omitempty"`
	Outside    bool   `json:"outside,omitempty"`
}

func asJSON(name string, i vfs.Info) entryJSON {
	return entryJSON{nameJSON: asName(name, i.Kind), SizeBytes: i.Size, ModifiedMs: i.ModifiedMs, Executable: i.Exec}
}

// label returns a name as it is printed: marked by kind, and safe on a terminal.
func (p painter) label(name string, i vfs.Info) string {
	name = vfs.Printable(name)
	switch {
	case i.Kind == vfs.DirKind:
		return p.dir(name + "/")
	case i.Kind == vfs.LinkKind:
		return p.link(name + "@")
	case i.Kind == vfs.Other:
		return name + "="
	case i.Exec:
		return p.exec(name + "*")
	}
	return name
}

type lsCommand struct {
	Path string `arg:"" optional:"" help:"A directory or a file (default: the capability itself)."`
	Long bool   `short:"l" help:"Show sizes and times."`
	JSON bool   `name:"json" help:"Print a JSON array."`
	capFlag
}

func (lsCommand) Help() string {
	return `Names are in byte order. A directory is marked with /, a link with @, an executable file with * (with
-l), and what can be listed but not opened with =.

Examples:
  capd ls
  capd ls -l project/docs
  capd ls project --json | jq -r '.[].name'`
}

func (c *lsCommand) Run(e *env) error {
	_, n, err := c.node(e, trimPath(c.Path), true)
	if err != nil {
		return err
	}
	var out []client.Entry
	if d, ok := n.(*client.Dir); ok {
		for entry, err := range d.Entries(e, c.Long || c.JSON) {
			if err != nil {
				return err
			}
			out = append(out, entry)
		}
	} else {
		info, err := n.Stat(e)
		if err != nil {
			return err
		}
		name := trimPath(c.Path)
		if name == "" {
			name = "." // the capability itself
		}
		out = []client.Entry{{Name: name, Info: info}}
	}
	if c.JSON {
		js := make([]entryJSON, len(out))
		for i, entry := range out {
			js[i] = asJSON(entry.Name, entry.Info)
		}
		return printJSON(e.stdout, js)
	}
	p := newPainter(e.stdout)
	if !c.Long {
		for _, entry := range out {
			fmt.Fprintln(e.stdout, p.label(entry.Name, entry.Info))
		}
		return nil
	}
	w := newColumns(e.stdout)
	w.right = true
	for _, entry := range out {
		size := ""
		if entry.Kind == vfs.FileKind {
			size = fmt.Sprint(entry.Size)
		}
		when := ""
		if entry.ModifiedMs != 0 {
			when = time.UnixMilli(entry.ModifiedMs).Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", size, when, p.label(entry.Name, entry.Info))
	}
	return w.Flush()
}

// leaveFlags say what a search leaves out.
type leaveFlags struct {
	NoIgnore bool `help:"Also show what ignore files name, and .git."`
	NoHidden bool `help:"Leave out names that begin with a dot."`
}

func (f leaveFlags) leave() (all []client.Leave) {
	if !f.NoIgnore {
		all = append(all, client.LeaveIgnored)
	}
	if f.NoHidden {
		all = append(all, client.LeaveHidden)
	}
	return all
}

// found prints what a search finds, as JSON or a line each. It returns what could not be listed.
func found(e *env, search iter.Seq2[vfs.Entry, error], asJSON bool) (missed *client.Unlisted, err error) {
	js := []nameJSON{}
	for entry, err := range search {
		if errors.As(err, &missed) {
			break
		}
		if err != nil {
			return nil, err
		}
		if asJSON {
			js = append(js, asName(entry.Name, entry.Kind))
		} else if _, err := fmt.Fprintln(e.stdout, vfs.Printable(entry.Name)); err != nil {
			return nil, err
		}
	}
	if asJSON {
		err = printJSON(e.stdout, js)
	}
	return missed, err
}

type globCommand struct {
	Pattern string `arg:"" help:"As in a shell, with ** for any number of names; quote it."`
	JSON    bool   `name:"json" help:"Print a JSON array."`
	leaveFlags
	capFlag
}

func (globCommand) Help() string {
	return `Paths are printed in the order of a walk through the tree. Links are listed, not followed. A
directory that cannot be listed, but could hold a match, is named on standard error, and the exit
code is 1.

What .gitignore, .ignore and .git/info/exclude name is left out, and so is .git. What the pattern spells out
from its start is not: 'build/*.o' finds files although build is ignored.

Examples:
  capd glob 'project/**/*.go'
  capd glob --no-ignore '**/*.log'
  capd glob 'project/{cmd,vfs}/**/*_test.go' --json`
}

func (c *globCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	missed, err := found(e, d.Glob(e, c.Pattern, c.leave()...), c.JSON)
	if err == nil && missed != nil {
		err = missed
	}
	return err
}

type statCommand struct {
	Path string `arg:"" optional:"" help:"What to look at (default: the capability itself)."`
	JSON bool   `name:"json" help:"Print JSON."`
	capFlag
}

func (statCommand) Help() string {
	return `The version is the sha256 of a file's content; put takes it with --if-version. A link is shown as a link.

Examples:
  capd stat project/README.md
  capd stat project/README.md --json | jq -r .version`
}

func (c *statCommand) Run(e *env) error {
	path := trimPath(c.Path)
	_, n, err := c.node(e, path, false)
	if err != nil {
		return err
	}
	info, err := n.Stat(e)
	if err != nil {
		return err
	}
	out := asJSON(path, info)
	switch n := n.(type) {
	case *client.File:
		v, err := n.Version(e)
		if err != nil {
			return err
		}
		out.Version = v.String()
	case vfs.Link:
		target, err := n.Target(e)
		switch {
		case err == nil:
			out.Target = target
		case vfs.CodeOf(err) == vfs.Outside:
			out.Outside = true
		default:
			return err
		}
	}
	if c.JSON {
		return printJSON(e.stdout, out)
	}
	w := newColumns(e.stdout)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	if path != "" {
		row("path", vfs.Printable(path))
	}
	row("type", out.Type)
	row("modified", time.UnixMilli(info.ModifiedMs).Format(time.RFC3339))
	switch info.Kind {
	case vfs.FileKind:
		row("size", fmt.Sprint(info.Size, " bytes"))
		row("executable", info.Exec)
		row("version", out.Version)
	case vfs.LinkKind:
		if out.Outside {
			row("target", "(outside; not shown)")
		} else {
			row("target", vfs.Printable(out.Target))
		}
	}
	return w.Flush()
}

type helpCommand struct {
	Method string `arg:"" optional:"" help:"A method, such as glob (default: the whole page)."`
	capFlag
}

func (helpCommand) Help() string {
	return `A model that holds the capability gets the same text. Without a capability, this shows capd --help.

Examples:
  capd help
  capd help glob`
}

// helper is what a *client.Dir and a *client.File have in common.
type helper interface {
	Help(ctx context.Context, method string) (string, error)
}

func (c *helpCommand) Run(e *env, k *kong.Context) error {
	isMethod := slices.Contains(slices.Concat(help.Methods("Dir"), help.Methods("File")), c.Method)
	isCommand := slices.ContainsFunc(k.Model.Children, func(n *kong.Node) bool { return n.Name == c.Method })
	if c.Cap == "" || isCommand && !isMethod {
		args := []string{"--help"}
		if c.Method != "" {
			args = []string{c.Method, "--help"}
		}
		run(e, args)
		return nil
	}
	_, n, err := c.dial(e)
	if err != nil {
		return err
	}
	text, err := n.(helper).Help(e, c.Method)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, strings.TrimRight(text, "\n"))
	return err
}
