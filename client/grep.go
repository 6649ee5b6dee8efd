package client

import (
	"cmp"
	"context"
	"iter"
	"math"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Grep is what [Dir.Grep] looks for. The zero value of everything but Pattern finds lines in
// all files.
type Grep struct {
	Path       string // where to search; "": everywhere. What it names counts, hidden or ignored or not
	Pattern    string // a regular expression in RE2's syntax
	IgnoreCase bool
	Words      bool // only whole words
	Fixed      bool // Pattern is no expression, and stands for itself

	Show          GrepShow
	Before, After int // lines to show before and after each that matches, at most 100
	LineBytes     int // how much of a line to show; 0: 500

	Only        []string // patterns as those of Glob: these files alone. One without "/" is for names at any depth
	Except      []string // patterns likewise: neither these files nor what is below these directories
	IgnoreFiles bool     // leave out what .gitignore and .ignore name, and .git
	NoHidden    bool     // leave out names that begin with a dot
}

// GrepShow says what is shown of a file.
type GrepShow uint16

// The values of GrepShow.
const (
	GrepLines  = GrepShow(schema.Grep_Show_lines)
	GrepNames  = GrepShow(schema.Grep_Show_names)
	GrepCounts = GrepShow(schema.Grep_Show_counts)
)

// Found is a file in which something matches. A file with many lines comes in several parts,
// one after the other; their Counts add up.
type Found struct {
	Path   string
	Lines  []Line
	Count  int64 // lines that match
	Binary bool  // it holds a NUL, so its lines are neither shown nor counted
}

// Line is a line of a file.
type Line struct {
	Number int64  // from 1
	Text   string // without its end; what is not UTF-8 is shown as U+FFFD
	Size   int64  // bytes of the whole line
	From   int64  // where Text begins in it, in bytes
	Match  bool   // false: a line before or after one that matches
}

// Grep yields the files at g.Path and below in which something matches, in tree order, as it
// finds them. An error is the last thing yielded. It is an [*Unlisted] if everything else was
// yielded but some directories and files could not be read.
func (d *Dir) Grep(ctx context.Context, g Grep) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		after := ""
		var missed Unlisted
		for {
			p, err := d.grepPage(ctx, g, after)
			if err != nil {
				yield(Found{}, err)
				return
			}
			for _, f := range p.found {
				if !yield(f, nil) {
					return
				}
			}
			missed.add(p.missed)
			if !p.more {
				if len(missed.Errors) > 0 {
					yield(Found{}, &missed)
				}
				return
			}
			if p.cursor == after {
				yield(Found{}, vfs.Errorf(vfs.Corrupt, "the host answered a search that makes no progress"))
				return
			}
			after = p.cursor
		}
	}
}

type grepPage struct {
	found  []Found
	missed []error
	more   bool
	cursor string
}

func (d *Dir) grepPage(ctx context.Context, g Grep, after string) (page grepPage, err error) {
	if err := d.at(g.Path); err != nil {
		return page, err
	}
	if len(g.Pattern) > vfs.MaxPath {
		return page, vfs.Errorf(vfs.Limit, "the pattern is longer than any host takes")
	}
	if err := cmp.Or(wire.CheckTexts(g.Only), wire.CheckTexts(g.Except)); err != nil {
		return page, err
	}
	err = wire.Do(ctx, d.cap, schema.Dir_grep, func(p schema.Dir_grep_Params, _ *vat.Caps) error {
		p.SetLimit(wire.MaxPage)
		if err := cmp.Or(p.SetPath(g.Path), p.SetAfter([]byte(after))); err != nil {
			return err
		}
		w, err := p.NewWhat()
		if err != nil {
			return err
		}
		return g.set(w)
	}, func(r schema.Dir_grep_Results, _ *vat.Caps) error {
		page.more = r.More()
		c, err := r.Cursor()
		if err != nil {
			return err
		}
		page.cursor = string(c)
		if page.found, err = found(r.Found()); err != nil {
			return err
		}
		page.missed, err = missedIn(r.Missed())
		return err
	})
	return page, err
}

func (g Grep) set(w schema.Grep) error {
	number := func(n int) uint32 { return uint32(min(max(n, 0), math.MaxInt32)) }
	w.SetIgnoreCase(g.IgnoreCase)
	w.SetWords(g.Words)
	w.SetFixed(g.Fixed)
	w.SetShow(schema.Grep_Show(g.Show))
	w.SetBefore(number(g.Before))
	w.SetBehind(number(g.After))
	w.SetLineBytes(number(g.LineBytes))
	w.SetIgnoreFiles(g.IgnoreFiles)
	w.SetNoHidden(g.NoHidden)
	return cmp.Or(w.SetPattern(g.Pattern), wire.SetTexts(g.Only, w.NewOnly), wire.SetTexts(g.Except, w.NewExclude))
}

// found reads a page.
func found(l schema.Found_List, err error) ([]Found, error) {
	if err != nil {
		return nil, err
	}
	if l.Len() > wire.MaxPage {
		return nil, vfs.Errorf(vfs.Corrupt, "the host answered a page of %d files", l.Len())
	}
	all := make([]Found, l.Len())
	for i := range all {
		w := l.At(i)
		f := Found{Count: int64(w.Count()), Binary: w.Binary()}
		if f.Path, err = wire.FoundName(w); err != nil {
			return nil, err
		}
		if _, err := vfs.SplitPath(f.Path); err != nil {
			return nil, errNames
		}
		if f.Lines, err = foundLines(w.Lines()); err != nil {
			return nil, err
		}
		all[i] = f
	}
	return all, nil
}

func foundLines(l schema.Found_Line_List, err error) ([]Line, error) {
	if err != nil {
		return nil, err
	}
	if l.Len() > 1<<16 { // empty elements take no room in a message
		return nil, vfs.Errorf(vfs.Corrupt, "the host answered %d lines of one file", l.Len())
	}
	all := make([]Line, l.Len())
	for i := range all {
		w := l.At(i)
		all[i] = Line{Number: int64(w.Number()), Size: int64(w.SizeBytes()), From: int64(w.FromByte()), Match: w.Match()}
		if all[i].Text, err = w.Text(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
