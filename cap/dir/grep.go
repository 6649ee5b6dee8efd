package dir

import (
	"context"
	"strings"
	"unicode/utf8"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/grep"
	"capd/vfs/ignore"
	"capd/vfs/membrane"
	"capd/vfs/search"
)

// Bounds of one page of a grep.
const (
	maxGrepBytes = 64 << 10 // of what is found
	maxGrepRead  = 64 << 20 // bytes that are read
)

func (s *server) grep(c vat.Call[schema.Dir_grep_Params, schema.Dir_grep_Results]) error {
	path, err := wire.Path(c.Params().PathBytes())
	if err != nil {
		return err
	}
	for _, kind := range []membrane.OpKind{membrane.OpRead, membrane.OpList} {
		if err := membrane.May(s.dir, membrane.To(kind)); err != nil {
			return vfs.At(path, err)
		}
	}
	g, what, err := grepOf(c.Params())
	if err != nil {
		return vfs.At(path, err)
	}
	page := &grepPage{at: path}
	g.Found, g.Missed = page.add, page.miss
	next, more, err := s.grepAt(c.Context(), path, g, what.IgnoreFiles())
	if err != nil {
		return vfs.At(path, err)
	}
	r := c.Results()
	r.SetMore(more)
	if more {
		if err := r.SetCursor([]byte(next.String())); err != nil {
			return err
		}
	}
	if err := setMissed(page.missed, r.NewMissed); err != nil {
		return err
	}
	return wire.SetAll(page.found, r.NewFound, setFound)
}

// grepOf reads what to search for.
func grepOf(p schema.Dir_grep_Params) (g grep.Search, what schema.Grep, err error) {
	what, err = wire.Sound[schema.Grep](p.HasWhat())(p.What())
	if err != nil {
		return g, what, err
	}
	text, err := wire.Path(what.PatternBytes())
	if err != nil {
		return g, what, err
	}
	after, err := wire.Param(p.After())
	if err != nil {
		return g, what, err
	}
	if len(after) > vfs.MaxPath+64 {
		return g, what, vfs.Errorf(vfs.Invalid, "after is no cursor of this search; begin without it")
	}
	g = grep.Search{
		Show: grep.Show{
			Output: grep.Output(what.Show()), Before: int(min(what.Before(), grep.MaxAround)), After: int(min(what.Behind(), grep.MaxAround)),
			LineBytes: int(min(what.LineBytes(), grep.MaxLineBytes)),
		},
		NoHidden: what.NoHidden(), Matches: wire.PageSize(p.Limit()), Bytes: maxGrepBytes, Work: maxGrepRead,
	}
	if g.Show.LineBytes == 0 {
		g.Show.LineBytes = grep.LineBytes
	}
	if g.Show.Output > grep.Counts {
		return g, what, vfs.Errorf(vfs.Invalid, "this host can show lines, names or counts")
	}
	if g.Pattern, err = grep.Compile(text, grep.Syntax{IgnoreCase: what.IgnoreCase(), Words: what.Words(), Fixed: what.Fixed()}); err != nil {
		return g, what, err
	}
	if g.From, err = grep.ParseCursor(string(after)); err != nil {
		return g, what, err
	}
	if g.Only, err = globs(wire.Texts(wire.Sound[capnp.TextList](what.HasOnly())(what.Only()))); err != nil {
		return g, what, err
	}
	g.Except, err = globs(wire.Texts(wire.Sound[capnp.TextList](what.HasExclude())(what.Exclude())))
	return g, what, err
}

// maxGlobs is how many patterns of paths one search takes.
const maxGlobs = 64

// globs compiles patterns of paths. One without a "/" is for names at any depth.
func globs(texts []string, err error) (all []*search.Pattern, _ error) {
	if err != nil {
		return nil, err
	}
	if len(texts) > maxGlobs {
		return nil, vfs.Errorf(vfs.Invalid, "a search takes at most %d patterns of paths; use braces: *.{go,md}", maxGlobs)
	}
	for _, text := range texts {
		if err := vfs.CheckPathSize(text); err != nil {
			return nil, vfs.At(text, err)
		}
		if !strings.Contains(text, "/") {
			text = "**/" + text
		}
		p, err := search.Compile(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// grepAt searches what is at path.
func (s *server) grepAt(ctx context.Context, path string, g grep.Search, ignoring bool) (next grep.Cursor, more bool, err error) {
	n, err := vfs.Node(s.dir), error(nil)
	if path != "" {
		if n, err = vfs.Walk(ctx, s.dir, path); err != nil {
			return next, false, err
		}
		defer n.Close()
	}
	switch n := n.(type) {
	case vfs.File:
		return g.InFile(ctx, n, itself)
	case vfs.Dir:
		if ignoring {
			if g.Ignore, err = s.ignoredAbove(ctx, path); err != nil {
				return next, false, err
			}
		}
		return g.In(ctx, n)
	}
	return next, false, vfs.NotRegular
}

// ignoredAbove returns what the ignore files on the way to path say there.
func (s *server) ignoredAbove(ctx context.Context, path string) (*ignore.Dir, error) {
	rules := &ignore.Dir{}
	if path == "" {
		return rules, nil
	}
	names, err := vfs.SplitPath(path)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if err := meter.Yield(ctx); err != nil {
			return nil, err
		}
		d, leave := s.dir, func() {}
		if i > 0 {
			n, err := vfs.Walk(ctx, s.dir, strings.Join(names[:i], "/"))
			if err == nil {
				d, err = vfs.AsDir(n)
			}
			if err != nil {
				return nil, err
			}
			leave = func() { d.Close() }
		}
		rules, _ = rules.Load(ctx, d, nil, func(string, error) {})
		leave()
		rules = rules.Enter(name)
	}
	return rules, nil
}

// itself is the path, from itself, of a file that is searched alone.
const itself = "."

// grepPage is one page of what is found at a path. What is found has its path from there.
type grepPage struct {
	at     string
	found  []grep.File
	missed []missed
}

func (p *grepPage) path(below string) string {
	if below == itself {
		return p.at
	}
	return vfs.Join(p.at, below)
}

func (p *grepPage) add(f grep.File) {
	f.Path = p.path(f.Path)
	p.found = append(p.found, f)
}

func (p *grepPage) miss(path string, why error) {
	if len(p.missed) < maxMissed {
		p.missed = append(p.missed, missed{p.path(path), why})
	}
}

func setFound(w schema.Found, f grep.File) error {
	w.SetCount(uint64(f.Count))
	w.SetBinary(f.Binary)
	if err := wire.SetFoundName(w, f.Path); err != nil || len(f.Lines) == 0 {
		return err
	}
	return wire.SetAll(f.Lines, w.NewLines, func(w schema.Found_Line, l grep.Line) error {
		w.SetNumber(uint64(l.Number))
		w.SetSizeBytes(uint64(l.Size))
		w.SetFromByte(uint64(l.From))
		w.SetMatch(l.Match)
		return w.SetText(strings.ToValidUTF8(l.Text, string(utf8.RuneError)))
	})
}
