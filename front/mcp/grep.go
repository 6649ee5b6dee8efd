package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"capd/client"
	"capd/vfs"
	"capd/vfs/lines"
)

type grepArgs struct {
	Pattern, Path, Show      string
	IgnoreCase, Words, Fixed bool
	Hidden, NoIgnore         bool
	Glob                     []string
	Context, Limit           number
}

// maxGrep is the size, in bytes, of the longest answer of a grep.
const maxGrep = 64 << 10

func grep(ctx context.Context, s *service, a grepArgs) (answer, error) {
	at, err := s.roots.Begin(a.Path)
	if err != nil {
		return answer{}, err
	}
	n := a.Context.whole(100)
	g := client.Grep{Path: at, Pattern: a.Pattern, IgnoreCase: a.IgnoreCase, Words: a.Words, Fixed: a.Fixed, Before: n, After: n, IgnoreFiles: !a.NoIgnore, NoHidden: !a.Hidden}
	switch a.Show {
	case "", "lines":
	case "names":
		g.Show = client.GrepNames
	case "counts":
		g.Show = client.GrepCounts
	default:
		return answer{}, vfs.Errorf(vfs.Invalid, "show is lines, names or counts")
	}
	for _, glob := range a.Glob {
		if not, ok := strings.CutPrefix(glob, "!"); ok {
			g.Except = append(g.Except, not)
		} else {
			g.Only = append(g.Only, glob)
		}
	}
	limit := a.Limit.whole(10_000)
	if limit == 0 {
		limit = 200
	}
	f := found{s: s, counts: g.Show == client.GrepCounts, names: g.Show == client.GrepNames, limit: limit}
	for got, err := range s.dir.Grep(ctx, g) {
		if err != nil {
			if f.text.Len() > 0 && vfs.CodeOf(err) != vfs.Revoked { // some directories or files could not be read
				f.text.WriteString("not all was searched: " + s.roots.refused(err).text + "\n")
				break
			}
			return answer{}, vfs.At(at, err)
		}
		if !f.add(got) {
			break
		}
	}
	switch {
	case f.text.Len() == 0:
		f.text.WriteString("No matches found")
	case f.more:
		f.text.WriteString("There are more; narrow the pattern or the path, or raise limit.")
	}
	return answer{text: strings.TrimSuffix(f.text.String(), "\n"), fields: []field{{"more", strconv.AppendBool(nil, f.more)}}}, nil
}

// found writes what a grep finds.
type found struct {
	s             *service
	counts, names bool
	limit         int
	text          strings.Builder
	n             int
	last          string // the file and the line that were written last
	line          int64
	more          bool
}

// add writes the matches in one file. It reports false if the answer is full.
func (f *found) add(got client.Found) bool {
	shown := f.s.roots.Out(got.Path)
	if f.names || f.counts || got.Binary {
		if f.n++; f.n > f.limit {
			f.more = true
			return false
		}
		switch {
		case got.Binary:
			shown += ": binary file matches"
		case f.counts:
			shown += ":" + strconv.FormatInt(got.Count, 10)
		}
		f.text.WriteString(shown + "\n")
		return true
	}
	for _, l := range got.Lines {
		between := "-"
		if l.Match {
			between = ":"
			f.n++
		}
		if f.n > f.limit || f.text.Len() > maxGrep {
			f.more = true
			return false
		}
		if f.last != "" && (f.last != shown || l.Number > f.line+1) && !l.Match {
			f.text.WriteString("--\n")
		}
		fmt.Fprintf(&f.text, "%s%s%d%s%s\n", shown, between, l.Number, between, l.Text)
		f.last, f.line = shown, l.Number
	}
	return true
}

type linesArgs struct {
	Path        string
	From, Count number
	Last        bool
}

func readLines(ctx context.Context, s *service, a linesArgs) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	f := s.dir.OpenFile(at)
	defer f.Close()
	w, err := f.ReadLines(ctx, lines.Query{From: int64(a.From.whole(1 << 40)), Count: a.Count.whole(lines.MaxCount), Last: a.Last})
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	out := said(string(w.Data)).with(w.Version)
	if !a.Last && w.Count == 0 {
		out.text = fmt.Sprintf("There is no line %d; the file has %d.", max(int64(a.From.whole(1<<40)), w.First), w.Total)
	}
	for _, c := range w.Clipped {
		out.text += fmt.Sprintf("\n(line %d is cut: it has %d bytes)", w.First+int64(c.Index), c.Size)
	}
	if w.More && !a.Last {
		out.text += fmt.Sprintf("\n(the next lines begin at %d)", w.Next)
	}
	out.fields = append(out.fields, field{"first", strconv.AppendInt(nil, w.First, 10)}, field{"next", strconv.AppendInt(nil, w.Next, 10)},
		field{"more", strconv.AppendBool(nil, w.More)}, field{"lines", strconv.AppendInt(nil, w.Total, 10)})
	return out, nil
}
