package main

import (
	"io"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"capd/client"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

type editCommand struct {
	Path      string  `arg:"" optional:"" help:"The file (default: the capability itself)."`
	Old       *string `placeholder:"TEXT" help:"What to replace; it must match exactly once."`
	OldFile   string  `placeholder:"FILE" help:"The same, from a file; - is standard input."`
	New       *string `placeholder:"TEXT" help:"What takes its place."`
	NewFile   string  `placeholder:"FILE" help:"The same, from a file; - is standard input."`
	All       bool    `help:"Replace every match."`
	Lines     string  `placeholder:"FROM:TO" help:"Replace these whole lines instead, counted from 1. Needs --if-version."`
	IfVersion *string `aliases:"if" placeholder:"V" help:"Only if the file's version is this."`
	DryRun    bool    `help:"Show what would change, and change nothing."`
	JSON      bool    `name:"json" help:"Print JSON: the new version, the difference, and which lines changed."`
	capFlag
}

func (editCommand) Help() string {
	return `Prints the difference. What is not edited stays as it is, byte for byte. Where the file has CRLF, a
line end in the texts stands for it. If the text matches nowhere, or more than once, nothing is
changed, and the error says what is there.

Examples:
  capd edit project/main.go --old 'x := 1' --new 'x := 2'
  capd edit project/main.go --old Foo --new Bar --all --dry-run
  capd edit project/main.go --old-file old.txt --new-file - < new.txt
  capd edit project/main.go --lines 10:12 --new '// gone' --if-version "$V"`
}

// editedJSON is what an edit has done, as --json prints it.
type editedJSON struct {
	Version   string      `json:"version"`
	Replaced  int         `json:"replaced"`
	Changed   []rangeJSON `json:"changed"`
	Diff      *string     `json:"diff,omitempty"`
	DiffBytes []byte      `json:"diffBytes,omitempty"` // in base64, where the difference is not UTF-8
	Cut       bool        `json:"cut"`
}

type rangeJSON struct {
	First int `json:"first"`
	Count int `json:"count"`
}

func (c *editCommand) Run(e *env) error {
	r, err := c.request(e)
	if err != nil {
		return err
	}
	path, err := filePath(c.Path)
	if err != nil {
		return err
	}
	_, n, err := c.node(e, path, true)
	if err != nil {
		return err
	}
	f, ok := n.(*client.File)
	if !ok {
		return vfs.At(path, vfs.IsDir)
	}
	made, err := f.Edit(e, r)
	if err != nil {
		return vfs.At(path, err)
	}
	if !c.DryRun {
		e.done("the file was edited; its version is %s", made.Version)
	}
	if c.JSON {
		js := editedJSON{Version: made.Version.String(), Replaced: made.Replaced, Changed: []rangeJSON{}, Cut: made.Cut}
		for _, l := range made.Changed {
			js.Changed = append(js.Changed, rangeJSON(l))
		}
		if utf8.Valid(made.Diff) {
			js.Diff = new(string(made.Diff))
		} else {
			js.DiffBytes = made.Diff
		}
		return printJSON(e.stdout, js)
	}
	if _, err := e.stdout.Write(made.Diff); err != nil {
		return err
	}
	if made.Cut {
		e.logf("capd: the difference is longer, and is not shown whole")
	}
	return nil
}

// request returns what the flags ask for.
func (c *editCommand) request(e *env) (r editing.Request, err error) {
	if c.OldFile == "-" && c.NewFile == "-" {
		return r, usageError{"standard input is one text; give the other with a flag or a file"}
	}
	with, byText, err := c.text(e, "new", c.New, c.NewFile)
	if err != nil {
		return r, err
	}
	if !byText {
		return r, usageError{"what takes its place? give --new or --new-file"}
	}
	if r.If, err = (condition{IfVersion: c.IfVersion}).read(); err != nil {
		return r, err
	}
	one := edit.Edit{New: with, All: c.All}
	one.Old, byText, err = c.text(e, "old", c.Old, c.OldFile)
	switch {
	case err != nil:
		return r, err
	case byText == (c.Lines != ""):
		return r, usageError{"what is to be replaced? give one of --old, --old-file and --lines"}
	case c.Lines != "" && c.IfVersion == nil:
		return r, usageError{"--lines needs --if-version, so that the lines are those that you have seen; cat --lines --json prints the version"}
	case c.Lines != "":
		q, to, err := lineRange(c.Lines)
		if err != nil {
			return r, err
		}
		if q.Last || to > math.MaxInt32 || c.All {
			return r, usageError{"lines to replace are FROM:TO or one number, without --all"}
		}
		one.ByLines, one.Lines = true, edit.Range{First: int(q.From), Count: int(to - q.From + 1)}
	}
	r.Edits, r.Dry = []edit.Edit{one}, c.DryRun
	return r, nil
}

// text returns the text of a flag, or of the file of another.
func (c *editCommand) text(e *env, name string, given *string, file string) (b []byte, ok bool, err error) {
	switch {
	case given != nil && file != "":
		return nil, false, usageError{"--" + name + " and --" + name + "-file exclude each other"}
	case given != nil:
		return []byte(*given), true, nil
	case file == "":
		return nil, false, nil
	}
	r := e.stdin
	shown := "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, false, unreadable(file, err)
		}
		defer f.Close()
		r, shown = f, file
	}
	if b, err = io.ReadAll(io.LimitReader(r, edit.MaxSize+1)); err != nil {
		return nil, false, unreadable(shown, err)
	}
	if len(b) > edit.MaxSize {
		return nil, false, vfs.Errorf(vfs.TooLarge, "%s is more than the %d bytes that can be edited", strings.TrimPrefix(shown, "./"), edit.MaxSize)
	}
	return b, true, nil
}
