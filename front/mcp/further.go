package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"capd/client"
	"capd/front/roots"
	"capd/vfs"
	"capd/vfs/lines"
	"capd/vfs/membrane"
)

var furtherTools = []tool{
	{
		name: "grep", title: "Search Contents", needs: client.Read | client.List,
		about: "Find lines that match an RE2 expression in a file or in everything below a directory, as path:line:text. What ignore files name and hidden files are left out unless asked for. " +
			"context shows lines around; show names or counts only; glob (\"*.go\", \"!vendor/**\") limits the files.",
		hints: reads,
		in: `"pattern":{"type":"string"},` + onePath + `,"ignoreCase":{"type":"boolean"},"words":{"type":"boolean"},"fixed":{"type":"boolean"},"glob":{"type":"array","items":{"type":"string"}},` +
			`"context":{"type":"number"},"show":{"type":"string","enum":["lines","names","counts"]},"hidden":{"type":"boolean"},"noIgnore":{"type":"boolean"},"limit":{"type":"number","description":"Matches at most (200)"}`,
		required: "pattern", out: `,"more":{"type":"boolean"}`, run: handler(grep),
	},
	{
		name: "read_lines", title: "Read Lines", needs: client.Read,
		about: "Read count lines from line number from on, or the last count. Long lines are cut. Answers where the next window begins.",
		hints: reads, in: onePath + `,"from":{"type":"number"},"count":{"type":"number","description":"At most 10000 (1000)"},"last":{"type":"boolean"}`, required: "path",
		out: versioned + `,"first":{"type":"number"},"next":{"type":"number"},"more":{"type":"boolean"},"lines":{"type":"number"}`, run: handler(readLines),
	},
	{
		name: "apply_patch", title: "Apply Patch", needs: client.Read | client.Write,
		about: "Change several files with a unified diff, or the format *** Begin Patch, all or none. Hunks are found by their lines; line numbers do not matter.",
		hints: changes, in: `"patch":{"type":"string"},"reverse":{"type":"boolean"},"dryRun":{"type":"boolean"}`, required: "patch",
		out: `,"files":{"type":"array","items":{"type":"object"}}`, run: handler(applyPatch),
	},
	{
		name: "changes", title: "Wait for Changes", needs: client.Watch,
		about: "What others and you changed below a directory since cursor; without one it begins now. Waits up to waitSeconds for something. rescan: look anew, something may have been missed.",
		hints: reads, in: onePath + `,"cursor":{"type":"string"},"waitSeconds":{"type":"number","description":"At most 50"},"others":{"type":"boolean","description":"Without your own"}`,
		out: `,"cursor":{"type":"string"},"rescan":{"type":"boolean"},"events":{"type":"array","items":{"type":"object"}}`, run: handler(whatChanged),
	},
	{
		name: "undo", title: "Undo", needs: client.Read | client.Write,
		about: "Take back one change (id, from history), the last ones, or a turn. Nothing is undone if somebody changed the same place since. An undo can be undone.",
		hints: changes, in: `"id":{"type":"number"},"last":{"type":"number","description":"So many (1)"},"turn":{"type":"string"},"dryRun":{"type":"boolean"}`,
		out: `,"id":{"type":"number"}`, run: handler(undo),
	},
	{
		name: "history", title: "History", about: "What you changed, the newest first, with ids for undo.", needs: client.Read,
		hints: reads, in: `"limit":{"type":"number","description":"Entries (20)"},"before":{"type":"number","description":"Older than this id"}`,
		out: `,"more":{"type":"boolean"}`, run: handler(history),
	},
	{
		name: "copy", title: "Copy", needs: client.Read | client.Write,
		about: "Copy a file, or a directory with everything in it, all or nothing. With replace a file that is there is replaced.",
		hints: changes, in: `"source":{"type":"string"},"destination":{"type":"string"},"replace":{"type":"boolean"},` + ifVersion, required: "source destination", run: handler(copyTo),
	},
	{
		name: "remove", title: "Remove", needs: client.Delete,
		about: "Remove a file, a link or an empty directory; with recursive a directory and everything in it. undo brings it back while history keeps it.",
		hints: changes, in: onePath + `,"recursive":{"type":"boolean"},` + ifVersion, required: "path", out: `,"turn":{"type":"string"}`, run: handler(remove),
	},
	{
		name: "attenuate", title: "Make a Narrower Capability",
		about: "Make a locator for somebody else, such as a sub-agent, for a directory or a file: with fewer rights, or for a time. It can never do more than you can, and ends with what you have. It is a secret.",
		hints: gives,
		in: onePath + `,"readOnly":{"type":"boolean"},"rights":{"type":"array","items":{"type":"string","enum":["read","write","delete","list","move","archive","watch","metadata","link"]}},` +
			`"expiresInSeconds":{"type":"number"}`,
		out: `,"locator":{"type":"string"},"id":{"type":"string"}`, run: handler(attenuate),
	},
}

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
	at, err := s.roots.In(a.Path)
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
		out.text = fmt.Sprintf("There is no line %d; the file has %d.", w.First, w.Total)
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

func applyPatch(ctx context.Context, s *service, a struct {
	Patch           string
	Reverse, DryRun bool
}) (answer, error) {
	text, err := s.roots.inPatch(a.Patch)
	if err != nil {
		return answer{}, err
	}
	d, top := s.dir, s.roots.Roots[0].At
	if top != "" {
		d = d.SubDir(top)
		defer d.Close()
	}
	done, err := d.Patch(ctx, []byte(text), client.PatchOptions{Reverse: a.Reverse, DryRun: a.DryRun})
	if err != nil {
		return answer{}, vfs.At(top, err)
	}
	type file struct {
		Path    string `json:"path"`
		From    string `json:"from,omitempty"`
		Version string `json:"version,omitempty"`
	}
	files, out := []file{}, strings.Builder{}
	for _, r := range done {
		f := file{Path: s.roots.Out(strings.TrimPrefix(top+"/"+r.Path, "/"))}
		what := "changed"
		switch {
		case r.Version.IsZero():
			what = "removed"
		case r.From != "":
			f.From = s.roots.Out(strings.TrimPrefix(top+"/"+r.From, "/"))
			what = "made of " + f.From + ":"
		case r.Was.IsZero():
			what = "made"
		}
		if !r.Version.IsZero() && !a.DryRun {
			f.Version = r.Version.String()
		}
		files = append(files, f)
		fmt.Fprintf(&out, "%s %s\n", what, f.Path)
		if a.DryRun && r.Diff != "" {
			out.WriteString(fenced(r.Diff))
		}
	}
	js, err := jsonv2.Marshal(files)
	return answer{text: out.String(), fields: []field{{"files", js}}}, err
}

// patchHeaders begin lines of a patch that name a file.
var patchHeaders = []string{"*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ", "--- ", "+++ "}

// inPatch returns a patch in which absolute paths are relative to the first root.
func (rs shown) inPatch(text string) (string, error) {
	all := strings.SplitAfter(text, "\n")
	for i, line := range all {
		for _, h := range patchHeaders {
			rest, ok := strings.CutPrefix(line, h+"/")
			name, end := "/"+rest, ""
			if at := strings.IndexAny(name, "\t\r\n"); at >= 0 {
				name, end = name[:at], name[at:]
			}
			if !ok || name == "/dev/null" {
				continue
			}
			below, ok := roots.Within(name, rs.Roots[0].Shown)
			if !ok || below == "" {
				if strings.HasPrefix(h, "***") {
					return "", roots.Outside{Sent: name, Roots: rs.Roots[0].Shown}
				}
				continue // a line that is removed or added, most likely
			}
			all[i] = h + below + end
		}
	}
	return strings.Join(all, ""), nil
}

// maxWait is how long a tool waits for changes: clients give a call a minute.
const maxWait = 50 * time.Second

var cursors = base64.RawURLEncoding

func whatChanged(ctx context.Context, s *service, a struct {
	Path, Cursor string
	WaitSeconds  number
	Others       bool
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	q := vfs.ChangesQuery{Wait: min(time.Duration(float64(a.WaitSeconds)*float64(time.Second)), maxWait), Others: a.Others}
	if q.Cursor, err = cursors.DecodeString(a.Cursor); err != nil {
		return answer{}, vfs.Errorf(vfs.Invalid, "this is no cursor; pass the one of the last answer, or none to begin")
	}
	d := s.dir
	if at != "" {
		d = d.SubDir(at)
		defer d.Close()
	}
	page, err := d.Changes(ctx, q)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	type event struct {
		Kind string `json:"kind"`
		Path string `json:"path"`
		From string `json:"from,omitempty"`
		Own  bool   `json:"own,omitempty"`
	}
	events, text := []event{}, strings.Builder{}
	if page.Rescan && a.Cursor != "" {
		text.WriteString("rescan: something may have been missed; look anew at what matters\n")
	}
	for _, e := range page.Events {
		ev := event{Kind: e.Kind.String(), Path: s.roots.Out(vfs.Join(at, e.Path)), Own: e.Own}
		text.WriteString(ev.Kind + " ")
		if e.Kind == vfs.Moved {
			ev.From = s.roots.Out(vfs.Join(at, e.From))
			text.WriteString(ev.From + " -> ")
		}
		text.WriteString(ev.Path)
		if e.Own {
			text.WriteString(" (you)")
		}
		text.WriteByte('\n')
		events = append(events, ev)
	}
	if text.Len() == 0 {
		text.WriteString("No changes\n")
	}
	cursor := cursors.EncodeToString(page.Cursor)
	text.WriteString("cursor " + cursor)
	js, err := jsonv2.Marshal(events)
	return answer{text: text.String(), fields: []field{{"cursor", quoted(cursor)}, {"rescan", strconv.AppendBool(nil, page.Rescan)}, {"events", js}}}, err
}

func undo(ctx context.Context, s *service, a struct {
	ID, Last number
	Turn     string
	DryRun   bool
}) (answer, error) {
	w := vfs.Undo{ID: int64(a.ID.whole(1 << 53)), Last: a.Last.whole(1000), Turn: a.Turn, DryRun: a.DryRun}
	if w.ID == 0 && w.Last == 0 && w.Turn == "" {
		w.Last = 1
	}
	done, err := s.dir.Undo(ctx, w)
	if err != nil {
		return answer{}, err
	}
	var text strings.Builder
	for _, st := range done.Steps {
		text.WriteString(st.Op + " " + s.shownPast(st.Path))
		if st.To != "" {
			text.WriteString(" -> " + s.shownPast(st.To))
		}
		if st.Err != nil {
			text.WriteString(": " + inWords(st.Err.Error()))
		}
		text.WriteByte('\n')
	}
	switch {
	case a.DryRun:
		text.WriteString("Nothing was changed.")
	case done.ID == 0:
		text.WriteString("Nothing had to be changed.")
	default:
		fmt.Fprintf(&text, "It was undone; undo with id %d takes that back.", done.ID)
	}
	return answer{text: text.String(), fields: []field{{"id", strconv.AppendInt(nil, done.ID, 10)}}}, nil
}

// shownPast returns a path of history as agents call it. It is empty for one that is not shown.
func (s *service) shownPast(at string) string {
	if at == "" {
		return "(not shown)"
	}
	return s.roots.Out(at)
}

func history(ctx context.Context, s *service, a struct{ Limit, Before number }) (answer, error) {
	limit := a.Limit.whole(256)
	if limit == 0 {
		limit = 20
	}
	page, err := s.dir.History(ctx, vfs.PastQuery{Before: int64(a.Before.whole(1 << 53)), Limit: limit})
	if err != nil {
		return answer{}, err
	}
	var text strings.Builder
	for _, p := range page.Entries {
		fmt.Fprintf(&text, "%d  %s", p.ID, time.UnixMilli(p.AtMs).UTC().Format(time.RFC3339))
		if p.Turn != "" {
			text.WriteString("  [" + vfs.Printable(p.Turn) + "]")
		}
		switch {
		case p.UndoneBy != 0:
			fmt.Fprintf(&text, "  (undone by %d)", p.UndoneBy)
		case p.Undoes:
			text.WriteString("  (undo)")
		case p.Lost:
			text.WriteString("  (cannot be undone any more)")
		}
		text.WriteByte('\n')
		for _, c := range p.Changes {
			text.WriteString("    " + c.Op + " " + s.shownPast(c.Path))
			if c.To != "" {
				text.WriteString(" -> " + s.roots.Out(c.To))
			}
			text.WriteByte('\n')
		}
		if p.More > 0 {
			fmt.Fprintf(&text, "    and %d more\n", p.More)
		}
	}
	if len(page.Entries) == 0 {
		text.WriteString("Nothing was changed.")
	}
	return answer{text: strings.TrimSuffix(text.String(), "\n"), fields: []field{{"more", strconv.AppendBool(nil, page.More)}}}, nil
}

func copyTo(ctx context.Context, s *service, a struct {
	Source, Destination, IfVersion string
	Replace                        bool
}) (answer, error) {
	from, to, c, err := s.ends(a.Source, a.Destination, a.IfVersion)
	if err != nil {
		return answer{}, err
	}
	done, err := s.dir.Copy(ctx, from, s.dir, to, c, vfs.If{Over: a.Replace})
	if err != nil {
		return answer{}, err
	}
	return said(fmt.Sprintf("Successfully copied %s to %s (%d entries, %d bytes)", a.Source, a.Destination, done.Entries, done.Bytes)), nil
}

func remove(ctx context.Context, s *service, a struct {
	Path, IfVersion string
	Recursive       bool
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	if s.roots.Top(at) {
		return answer{}, vfs.Errorf(vfs.Invalid, "an allowed directory itself is not removed; name something in it")
	}
	c, err := condition(a.IfVersion)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	err = s.dir.RemovePath(ctx, at, c)
	if vfs.CodeOf(err) != vfs.NotEmpty || !a.Recursive {
		if err != nil {
			return answer{}, vfs.At(at, err)
		}
		return said("Successfully removed " + a.Path), nil
	}
	return s.removeAll(ctx, at, a.Path)
}

// removeAll removes a directory with everything in it, as one turn.
func (s *service) removeAll(ctx context.Context, at, sent string) (answer, error) {
	turn := "remove " + strconv.FormatInt(time.Now().UnixNano(), 36)
	d := s.dir.Turn(turn)
	defer d.Close()
	var all []string
	sub := d.SubDir(at)
	defer sub.Close()
	for e, err := range sub.Glob(ctx, "**") {
		if err != nil {
			return answer{}, vfs.At(at, err)
		}
		all = append(all, vfs.Join(at, e.Name))
	}
	for i := len(all) - 1; i >= -1; i-- {
		path := at
		if i >= 0 {
			path = all[i]
		}
		if err := d.RemovePath(ctx, path, vfs.If{}); err != nil && vfs.CodeOf(err) != vfs.NotFound {
			err = vfs.At(path, err)
			if i < len(all)-1 {
				return answer{}, &vfs.Error{Code: vfs.CodeOf(err), Path: path, Msg: fmt.Sprintf("%s; %d of %d were removed before, and undo with turn %q brings them back", vfs.Message(err), len(all)-1-i, len(all)+1, turn)}
			}
			return answer{}, err
		}
	}
	return answer{text: fmt.Sprintf("Successfully removed %s (%d entries)", sent, len(all)+1), fields: []field{{"turn", quoted(turn)}}}, nil
}

func attenuate(ctx context.Context, s *service, a struct {
	Path             string
	ReadOnly         bool
	Rights           []string
	ExpiresInSeconds number
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	keep := client.EveryRight
	if len(a.Rights) > 0 {
		if keep, err = membrane.ParseRights(strings.Join(a.Rights, ",")); err != nil {
			return answer{}, err
		}
	}
	if a.ReadOnly {
		keep &^= membrane.ChangeRights
	}
	n, err := s.walk(ctx, at)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	defer n.Close()
	switch d := n.(type) {
	case *client.Dir:
		less := d.Narrow(keep)
		defer less.Close()
		n = less
	case *client.File:
		less := d.Narrow(keep)
		defer less.Close()
		n = less
	default:
		return answer{}, vfs.At(at, vfs.Errorf(vfs.NotRegular, "only a directory or a file can be given"))
	}
	id, loc, r, err := s.conn.ShareOn(ctx, n, client.ShareTerms{Expires: time.Duration(float64(a.ExpiresInSeconds) * float64(time.Second))})
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	r.Close()
	return answer{text: loc, fields: []field{{"locator", quoted(loc)}, {"id", quoted(id)}}}, nil
}

func (s *service) walk(ctx context.Context, at string) (vfs.Node, error) {
	if at == "" {
		return s.dir.Dup()
	}
	return s.dir.Walk(ctx, at, true)
}
