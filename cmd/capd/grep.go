package main

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"capd/client"
	"capd/vfs"
)

type grepCommand struct {
	Pattern    string   `arg:"" help:"A regular expression in RE2's syntax; quote it."`
	Path       string   `arg:"" optional:"" help:"A directory or a file (default: the capability itself)."`
	IgnoreCase bool     `short:"i" help:"Do not distinguish upper and lower case."`
	Words      bool     `short:"w" name:"word-regexp" help:"Find whole words only."`
	Fixed      bool     `short:"F" name:"fixed-strings" help:"The pattern stands for itself."`
	Names      bool     `short:"l" name:"files-with-matches" xor:"show" help:"Print only which files match."`
	Count      bool     `short:"c" xor:"show" help:"Print only how many lines of each file match."`
	After      int      `short:"A" placeholder:"N" help:"Show N lines after each that matches."`
	Before     int      `short:"B" placeholder:"N" help:"Show N lines before each that matches."`
	Context    int      `short:"C" placeholder:"N" help:"Show N lines before and after."`
	Glob       []string `short:"g" sep:"none" placeholder:"PATTERN" help:"Only these files, as in glob; with ! in front: not these. May be repeated."`
	Ignore     bool     `default:"true" negatable:"" help:"Leave out what .gitignore and .ignore name (default: yes)."`
	Hidden     bool     `default:"true" negatable:"" help:"Search names that begin with a dot too (default: yes)."`
	MaxColumns int      `default:"500" placeholder:"BYTES" help:"Show so much of a long line (${default}, at most 4096)."`
	JSON       bool     `name:"json" help:"Print a JSON object for each file, one a line."`
	Habit      struct { // what grep and rg are told, and is so here anyway
		Recursive bool `short:"r" hidden:""`
		Numbers   bool `short:"n" name:"line-number" hidden:""`
		Extended  bool `short:"E" name:"extended-regexp" hidden:""`
	} `embed:""`
	capFlag
}

func (grepCommand) Help() string {
	return `What the path names is searched even if it is hidden or an ignore file names it. Links are not followed. A
binary file (it holds a NUL) is named, and its lines are not shown. The exit code is 1 if nothing matches, and
if a directory or a file could not be read, which is then named on standard error. -r, -n and -E are taken
and change nothing: lines have numbers, and a directory is searched with all in it.

What is not UTF-8 is shown as U+FFFD; capd cat --lines prints it as it is.

Examples:
  capd grep 'func \w+Handler' project
  capd grep -i -w todo project -g '*.go' -g '!**/testdata/**'
  capd grep -F 'a[0]' project -C 2
  capd grep -l TODO project --no-ignore --json`
}

// foundJSON is a file as grep --json prints it.
type foundJSON struct {
	Path    string     `json:"path"`
	RawPath []byte     `json:"rawPath,omitempty"`
	Count   int64      `json:"count"`
	Binary  bool       `json:"binary"`
	Lines   []lineJSON `json:"lines"`
}

type lineJSON struct {
	Number    int64  `json:"number"`
	Text      string `json:"text"` // what is not UTF-8 is U+FFFD
	SizeBytes int64  `json:"sizeBytes"`
	FromByte  int64  `json:"fromByte"`
	Match     bool   `json:"match"`
}

func asFoundJSON(f client.Found) foundJSON {
	name := asName(f.Path, vfs.FileKind)
	js := foundJSON{Path: name.Name, RawPath: name.RawName, Count: f.Count, Binary: f.Binary, Lines: make([]lineJSON, len(f.Lines))}
	for i, l := range f.Lines {
		js.Lines[i] = lineJSON{Number: l.Number, Text: l.Text, SizeBytes: l.Size, FromByte: l.From, Match: l.Match}
	}
	return js
}

func (c *grepCommand) grep() client.Grep {
	g := client.Grep{
		Path: trimPath(c.Path), Pattern: c.Pattern, IgnoreCase: c.IgnoreCase, Words: c.Words, Fixed: c.Fixed,
		Before: max(c.Before, c.Context), After: max(c.After, c.Context), LineBytes: c.MaxColumns, IgnoreFiles: c.Ignore, NoHidden: !c.Hidden,
	}
	switch {
	case c.Names:
		g.Show = client.GrepNames
	case c.Count:
		g.Show = client.GrepCounts
	}
	for _, glob := range c.Glob {
		if not, ok := strings.CutPrefix(glob, "!"); ok {
			g.Except = append(g.Except, not)
		} else {
			g.Only = append(g.Only, glob)
		}
	}
	return g
}

func (c *grepCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	p := &grepPrinter{e: e, c: c, painter: newPainter(e.stdout)}
	p.marks = c.expression()
	var parts client.Found // of one file
	flush := func() error {
		if parts.Path == "" {
			return nil
		}
		defer func() { parts = client.Found{} }()
		return p.file(parts)
	}
	for f, err := range d.Grep(e, c.grep()) {
		if err != nil {
			return cmp.Or(flush(), err)
		}
		p.found = true
		if f.Path == parts.Path { // the next part of the same file
			parts.Count += f.Count
			parts.Binary = parts.Binary || f.Binary
			parts.Lines = append(parts.Lines, f.Lines...)
			if c.JSON || len(parts.Lines) < maxKept {
				continue
			}
			if err := p.lines(parts); err != nil {
				return err
			}
			parts.Lines = nil
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		parts = f
	}
	if err := flush(); err != nil {
		return err
	}
	if !p.found {
		return exitError(exitRefused)
	}
	return nil
}

// maxKept is how many lines of one file are kept before they are printed.
const maxKept = 10_000

// expression returns what to colour in lines, or nil.
func (c *grepCommand) expression() *regexp.Regexp {
	text := c.Pattern
	if c.Fixed {
		text = regexp.QuoteMeta(text)
	}
	if c.IgnoreCase {
		text = "(?i)" + text
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil // the host says why
	}
	return re
}

// grepPrinter prints what grep finds.
type grepPrinter struct {
	painter
	e     *env
	c     *grepCommand
	marks *regexp.Regexp
	found bool
	last  int64 // the number of the line printed last
	from  string
}

func (p *grepPrinter) file(f client.Found) error {
	if p.c.JSON {
		return newEncoder(p.e.stdout).Encode(asFoundJSON(f))
	}
	name := p.dir(vfs.Printable(f.Path))
	var err error
	switch {
	case p.c.Names:
		_, err = fmt.Fprintln(p.e.stdout, name)
	case f.Binary:
		_, err = fmt.Fprintf(p.e.stdout, "%s: a binary file matches\n", name)
	case p.c.Count:
		_, err = fmt.Fprintf(p.e.stdout, "%s:%d\n", name, f.Count)
	default:
		return p.lines(f)
	}
	return err
}

// lines prints lines as PATH:NUMBER:TEXT, and those around with - instead of the colons.
func (p *grepPrinter) lines(f client.Found) error {
	around := p.c.Before+p.c.After+p.c.Context > 0
	for _, l := range f.Lines {
		if around && p.from != "" && (p.from != f.Path || l.Number != p.last+1) {
			fmt.Fprintln(p.e.stdout, "--")
		}
		p.from, p.last = f.Path, l.Number
		sep, text := "-", shownLine(l.Text)
		if l.Match {
			sep, text = ":", p.marked(text)
		}
		if l.From > 0 {
			text = p.faint("…") + text
		}
		if more := l.Size - l.From - int64(len(l.Text)); more > 0 {
			text += p.faint(" … (" + strconv.FormatInt(l.Size, 10) + " bytes)")
		}
		if _, err := fmt.Fprint(p.e.stdout, p.dir(vfs.Printable(f.Path)), sep, l.Number, sep, text, "\n"); err != nil {
			return err
		}
	}
	return nil
}

// shownLine returns a line in a form that is safe on a terminal, with its tabs.
func shownLine(text string) string {
	parts := strings.Split(text, "\t")
	for i, part := range parts {
		parts[i] = vfs.Printable(part)
	}
	return strings.Join(parts, "\t")
}

// marked colours what matches.
func (p *grepPrinter) marked(text string) string {
	if !p.on || p.marks == nil {
		return text
	}
	return p.marks.ReplaceAllStringFunc(text, p.bad)
}
