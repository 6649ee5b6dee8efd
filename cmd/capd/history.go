package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"capd/vfs"
)

type historyCommand struct {
	Path  string `arg:"" optional:"" help:"A directory (default: the capability itself)."`
	Max   int    `short:"n" default:"50" help:"Show at most this many entries."`
	Read  string `placeholder:"V" help:"Print the content with this version that PATH, a file, had before a change."`
	Guest string `placeholder:"NAME" help:"As the operator: the history of this guest, or of the grant with this id, also after its end."`
	JSON  bool   `name:"json" help:"Print JSON: the entries, and since when the history is complete."`
	capFlag
	stateFlag
}

func (historyCommand) Help() string {
	return `Shows what was changed, the newest first: through the capability's grant, and through what was shared from it. Each line has
the id of the entry, which capd undo takes, when it was made, what was done and where. "undone by 12" says that undo 12 took it back.
"lost" says that it cannot be undone: what it displaced is not kept.

With CAPD_TURN set, the commands that change something say to which turn that belongs: capd undo --turn takes it back.

A host keeps what changes displaced for a day, and at most 256 MiB and 1,000 changes of a grant, unless it is set otherwise.

The operator of a host names a guest instead of a capability.

Examples:
  capd history
  capd history project/docs -n 10
  capd history notes.txt --read "$VERSION" > old.txt
  capd history --guest reviewer --json`
}

// pastJSON is an entry of history as --json prints it.
type pastJSON struct {
	ID       int64            `json:"id"`
	At       string           `json:"at"`
	Turn     string           `json:"turn,omitempty"`
	Undoes   bool             `json:"undoes,omitempty"`
	UndoneBy int64            `json:"undoneBy,omitempty"`
	Outside  bool             `json:"outside,omitempty"`
	Lost     bool             `json:"lost,omitempty"`
	Changes  []pastChangeJSON `json:"changes"`
	More     int              `json:"more,omitempty"`
}

type pastChangeJSON struct {
	Op          string `json:"op"`
	Path        string `json:"path"`
	RawPath     []byte `json:"rawPath,omitempty"` // in base64, where the path is not UTF-8
	To          string `json:"to,omitempty"`
	RawTo       []byte `json:"rawTo,omitempty"`
	Type        string `json:"type"`
	Existed     bool   `json:"existed"`
	Before      string `json:"before,omitempty"`
	Then        string `json:"then,omitempty"`
	BytesBefore int64  `json:"bytesBefore"`
	BytesThen   int64  `json:"bytesThen"`
}

type historyJSON struct {
	Entries []pastJSON `json:"entries"`
	More    bool       `json:"more"`
	Since   string     `json:"completeSince,omitempty"`
}

// historian is a guest's directory, or what the operator sees of a grant.
type historian interface {
	History(ctx context.Context, q vfs.PastQuery) (vfs.PastPage, error)
	Undo(ctx context.Context, w vfs.Undo) (vfs.Undone, error)
}

// historianOf returns who knows the history at path, for a guest or for the operator.
func historianOf(e *env, f capFlag, st stateFlag, guest, path string) (historian, error) {
	if guest != "" {
		if path != "" || f.Cap != os.Getenv("CAPD_CAP") {
			return nil, usageError{"--guest is for the operator, who gives neither a path nor a capability"}
		}
		con, err := st.console(e)
		if err != nil {
			return nil, err
		}
		return con.Past(guest), nil
	}
	d, err := f.dir(e)
	if err != nil || path == "" {
		return d, err
	}
	return d.SubDir(path), nil
}

func (c *historyCommand) Run(e *env) error {
	if c.Read != "" {
		return c.read(e)
	}
	h, err := historianOf(e, c.capFlag, c.stateFlag, c.Guest, trimPath(c.Path))
	if err != nil {
		return err
	}
	js := historyJSON{Entries: []pastJSON{}}
	for q := (vfs.PastQuery{Limit: c.Max}); len(js.Entries) < c.Max; q.Limit = c.Max - len(js.Entries) {
		page, err := h.History(e, q)
		if err != nil {
			return err
		}
		for _, p := range page.Entries {
			js.Entries = append(js.Entries, pastEntry(p))
			q.Before = p.ID
		}
		if js.More = page.More; page.SinceMs != 0 {
			js.Since = shownTime(page.SinceMs)
		}
		if !page.More {
			break
		}
	}
	if c.JSON {
		return printJSON(e.stdout, js)
	}
	return js.print(e)
}

func shownTime(ms int64) string { return time.UnixMilli(ms).Format(time.RFC3339) }

func (js historyJSON) print(e *env) error {
	for _, p := range js.Entries {
		fmt.Fprintf(e.stdout, "%d  %s", p.ID, p.At)
		if p.Turn != "" {
			fmt.Fprintf(e.stdout, "  [%s]", vfs.Printable(p.Turn))
		}
		var notes []string
		for _, n := range []struct {
			is   bool
			text string
		}{{p.Undoes, "undo"}, {p.UndoneBy != 0, "undone by " + strconv.FormatInt(p.UndoneBy, 10)}, {p.Lost, "lost"}, {p.Outside, "reached outside"}} {
			if n.is {
				notes = append(notes, n.text)
			}
		}
		if len(notes) > 0 {
			fmt.Fprintf(e.stdout, "  (%s)", strings.Join(notes, ", "))
		}
		fmt.Fprintln(e.stdout)
		for _, c := range p.Changes {
			to := ""
			if c.To != "" {
				to = " -> " + vfs.Printable(c.To)
			}
			fmt.Fprintf(e.stdout, "    %s %s%s\n", c.Op, cmp.Or(vfs.Printable(c.Path), elsewhere), to)
		}
		if p.More > 0 {
			fmt.Fprintf(e.stdout, "    … %d more\n", p.More)
		}
	}
	switch {
	case js.More:
		e.logf("capd: there are older changes; see -n")
	case js.Since != "":
		e.logf("capd: of what was changed until %s something is missing", js.Since)
	}
	return nil
}

func pastEntry(p vfs.Past) pastJSON {
	js := pastJSON{ID: p.ID, At: shownTime(p.AtMs), Turn: p.Turn, Undoes: p.Undoes, UndoneBy: p.UndoneBy, Outside: p.Outside, Lost: p.Lost, More: p.More, Changes: []pastChangeJSON{}}
	for _, c := range p.Changes {
		one := pastChangeJSON{Op: c.Op, Type: c.Kind.String(), Existed: c.Existed, Before: c.Before.String(), Then: c.After.String(), BytesBefore: c.BytesBefore, BytesThen: c.BytesThen}
		one.Path, one.RawPath = textAndRaw(c.Path)
		one.To, one.RawTo = textAndRaw(c.To)
		js.Changes = append(js.Changes, one)
	}
	return js
}

// textAndRaw returns path for people, and its bytes if that is not all of it.
func textAndRaw(path string) (text string, raw []byte) {
	if text = vfs.Printable(path); text != path {
		raw = []byte(path)
	}
	return text, raw
}

// read prints an old content.
func (c *historyCommand) read(e *env) error {
	v, err := vfs.ParseVersion(c.Read)
	if err != nil {
		return usageError{vfs.Message(err)}
	}
	path := trimPath(c.Path)
	if path == "" || c.Guest != "" {
		return usageError{"--read is for a guest, and needs the path of a file"}
	}
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	old, err := d.Past(e, path, v)
	if err != nil {
		return err
	}
	defer old.Close()
	_, err = io.Copy(e.stdout, io.NewSectionReader(old, 0, old.Size()))
	return err
}

// entryID is an argument that names an entry of history.
type entryID int64

// UnmarshalText reads a decimal number from 1.
func (id *entryID) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 1 {
		return usageError{vfs.Printable(string(text)) + " is no number of an entry; capd history shows them. For what was changed in a directory use --in PATH"}
	}
	*id = entryID(n)
	return nil
}

type undoCommand struct {
	ID     entryID `arg:"" optional:"" help:"The entry of history (default: what the last command changed that is not undone)."`
	Last   int     `placeholder:"N" help:"Undo so many of the last changes."`
	Since  string  `placeholder:"T" help:"Undo everything since then: a time as 2026-01-31T12:00:00Z, or how long ago, as 10m."`
	Turn   string  `placeholder:"NAME" help:"Undo everything of the turn with this name."`
	In     string  `placeholder:"PATH" help:"Only what was changed in this directory."`
	DryRun bool    `help:"Show what would be done, and change nothing."`
	Guest  string  `placeholder:"NAME" help:"As the operator: undo what this guest did, or the grant with this id, also after its end."`
	JSON   bool    `name:"json" help:"Print JSON: the id of the undo, and the changes that it made."`
	capFlag
	stateFlag
}

func (undoCommand) Help() string {
	return `Takes back changes that were made through the capability's grant, or through what was shared from it. capd history shows them.
Everything is undone or nothing: if a place was changed since by somebody else, nothing is, and the error names it. An undo is a change
itself: undo its id to have back what was there.

Without arguments it takes back the last change; of rm -r, put -r and rm of several paths, all that the command changed. With
CAPD_TURN set, their changes belong to that turn instead, and are single changes to undo.

Examples:
  capd undo
  capd undo 17
  capd undo --last 3 --dry-run
  capd undo --since 10m
  capd undo --guest reviewer --since 2026-01-31T12:00:00Z`
}

type undoneJSON struct {
	ID      int64      `json:"id,omitempty"`
	Entries []int64    `json:"entries"`
	Steps   []stepJSON `json:"steps"`
}

type stepJSON struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	To    string `json:"to,omitempty"`
	Error string `json:"error,omitempty"`
}

func (c *undoCommand) Run(e *env) error {
	w, err := c.what()
	if err != nil {
		return err
	}
	h, err := historianOf(e, c.capFlag, c.stateFlag, c.Guest, trimPath(c.In))
	if err != nil {
		return err
	}
	if w == (vfs.Undo{DryRun: c.DryRun}) {
		if w, err = lastCommand(e, h); err != nil {
			return err
		}
		w.DryRun = c.DryRun
	}
	done, err := h.Undo(e, w)
	if err != nil {
		return err
	}
	if !c.DryRun && done.ID != 0 {
		e.done("it was undone; capd undo %d takes that back", done.ID)
	}
	js, refused := undoneJSON{ID: done.ID, Entries: done.Entries, Steps: []stepJSON{}}, false
	for _, s := range done.Steps {
		one := stepJSON{Op: s.Op, Path: vfs.Printable(s.Path), To: vfs.Printable(s.To)}
		if s.Err != nil {
			one.Error, refused = string(vfs.CodeOf(s.Err))+": "+vfs.Message(s.Err), true
		}
		js.Steps = append(js.Steps, one)
	}
	if c.JSON {
		err = printJSON(e.stdout, js)
	} else {
		err = c.print(e, js)
	}
	if err == nil && refused {
		err = exitError(exitRefused)
	}
	return err
}

// elsewhere stands for a path that is not shown.
const elsewhere = "(elsewhere)"

func (c *undoCommand) print(e *env, js undoneJSON) error {
	for _, s := range js.Steps {
		line := s.Op + " " + cmp.Or(s.Path, elsewhere)
		if s.To != "" {
			line += " -> " + s.To
		}
		if s.Error != "" {
			line += ": " + s.Error
		}
		if _, err := fmt.Fprintln(e.stdout, line); err != nil {
			return err
		}
	}
	if !c.DryRun && js.ID != 0 {
		e.logf("capd: this is undo %d", js.ID)
	}
	return nil
}

// what returns what is to be undone: nothing is named if the caller has named nothing.
func (c *undoCommand) what() (w vfs.Undo, err error) {
	w = vfs.Undo{ID: int64(c.ID), Last: c.Last, Turn: c.Turn, DryRun: c.DryRun}
	if c.Since != "" {
		if ago, err := time.ParseDuration(c.Since); err == nil && ago >= 0 {
			w.SinceMs = time.Now().Add(-ago).UnixMilli()
		} else if at, err := time.Parse(time.RFC3339, c.Since); err == nil {
			w.SinceMs = at.UnixMilli()
		} else {
			return w, usageError{"--since " + vfs.Printable(c.Since) + " is neither a time like 2026-01-31T12:00:00Z nor how long ago, like 10m"}
		}
	}
	said := 0
	for _, is := range []bool{w.ID != 0, w.Last != 0, w.Turn != "", w.SinceMs != 0} {
		if is {
			said++
		}
	}
	if said > 1 || w.ID < 0 || w.Last < 0 {
		return w, usageError{"say one of: an id, --last, --since, --turn"}
	}
	return w, nil
}
