package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"capd/vfs"
)

// maxWait is how long a tool waits for changes: clients give a call a minute.
const maxWait = 50 * time.Second

var cursors = base64.RawURLEncoding

func whatChanged(ctx context.Context, s *service, a struct {
	Path, Cursor string
	WaitSeconds  number
	Others       bool
}) (answer, error) {
	at, err := s.roots.Begin(a.Path)
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
	ID, Last *number
	Turn     string
	DryRun   bool
}) (answer, error) {
	w := vfs.Undo{Turn: a.Turn, DryRun: a.DryRun}
	said := 0
	for _, n := range []*number{a.ID, a.Last} {
		if n != nil {
			said++
			if *n < 1 || *n != number(int64(*n)) {
				return answer{}, vfs.Errorf(vfs.Invalid, "id and last are whole numbers above 0; history shows the ids")
			}
		}
	}
	if a.Turn != "" {
		said++
	}
	switch {
	case said > 1:
		return answer{}, vfs.Errorf(vfs.Invalid, "say one of id, last and turn")
	case a.ID != nil:
		w.ID = int64(a.ID.whole(1 << 53))
	case a.Last != nil:
		w.Last = a.Last.whole(1000)
	case a.Turn == "":
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
