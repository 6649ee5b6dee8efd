package main

import (
	"encoding/json"
	"fmt"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

type auditCommand struct {
	Show       auditShowCommand       `cmd:"" default:"withargs" help:"Print the record (default)."`
	Verify     auditVerifyCommand     `cmd:"" help:"Check that nothing was removed from the record, or changed in it."`
	Checkpoint auditCheckpointCommand `cmd:"" help:"Print the newest signed checkpoint, to keep elsewhere."`
	Key        auditKeyCommand        `cmd:"" help:"Print the public key that checks signatures of checkpoints."`
}

func (auditCommand) Help() string {
	return `The record has every change that guests make: an intent that is on disk before the change shows, and an
outcome. The host need not run.

Examples:
  capd audit
  capd audit --guest agent --path project/src
  capd audit verify`
}

type auditShowCommand struct {
	Guest string        `placeholder:"NAME" help:"Only what this guest or grant changed, and what was shared from it."`
	Path  string        `placeholder:"PATH" help:"Only changes at this path of the host's tree, and below it."`
	Since time.Duration `placeholder:"2h" help:"Only what is not older than this."`
	Kind  []string      `placeholder:"KIND" help:"Only entries of these kinds: started, intent, outcome, settled, asked, decided, granted, shared, revoked, expired, policy. It needs --json."`
	JSON  bool          `name:"json" help:"Print every entry as a JSON object on a line of its own."`
	stateFlag
}

func (auditShowCommand) Help() string {
	return `Prints a line for each change: when, its id, who, what, how it ended, and where. A change whose host was
killed is "settled" by the next start: "done" or "not done" if what is there tells, and "unknown" if not.

--json prints intents and outcomes as they lie in the record. "of" in an outcome is the number of its intent.

Examples:
  capd audit show --since 2h
  capd audit show --guest reviewer --json | jq -r 'select(.kind == "intent") | .path'`
}

func (c *auditShowCommand) Run(e *env) error {
	q := record.Query{Guest: c.Guest, Path: c.Path}
	if c.Since > 0 {
		q.Since = time.Now().Add(-c.Since).UnixMilli()
	}
	for _, word := range c.Kind {
		k, err := record.ParseKind(word)
		if err != nil {
			return err
		}
		q.Kinds = append(q.Kinds, k)
	}
	if len(c.Kind) > 0 && !c.JSON {
		return vfs.Errorf(vfs.Invalid, "--kind needs --json: a line shows a change, with its intent and its outcome")
	}
	view, err := c.view(e)
	if err != nil {
		return err
	}
	if c.JSON {
		return entriesJSON(e, view, q)
	}
	return printChanges(e, view, q)
}

// view opens the state to read it. It is closed with e.
func (f stateFlag) view(e *env) (*database.View, error) {
	st, err := f.open()
	if err != nil {
		return nil, err
	}
	v, err := database.OpenView(e, st)
	if err == nil {
		e.opened = append(e.opened, v)
	}
	return v, err
}

func entriesJSON(e *env, view *database.View, q record.Query) error {
	enc := json.NewEncoder(e.stdout)
	enc.SetEscapeHTML(false)
	for one, err := range record.Entries(e, view, q) {
		if err == nil {
			err = enc.Encode(one)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxWaiting is how many changes are held back until their outcome has been read.
const maxWaiting = 1 << 16

// printChanges prints a line for each change, in the order of their intents.
func printChanges(e *env, view *database.View, q record.Query) error {
	p := newPainter(e.stdout)
	var waiting []record.Numbered // the first of them has no outcome yet
	ended := map[int64]string{}
	print := func(all bool) {
		for len(waiting) > 0 {
			first := waiting[0]
			how, ok := ended[first.Number]
			if !ok && !all && len(waiting) < maxWaiting {
				return
			}
			delete(ended, first.Number)
			fmt.Fprintln(e.stdout, changeLine(p, first, how))
			waiting = waiting[1:]
		}
	}
	for one, err := range record.Entries(e, view, q) {
		if err != nil {
			return err
		}
		switch one.Kind {
		case record.Ended, record.Settled:
			ended[one.Of] = outcome(p, one.Entry)
		default:
			waiting = append(waiting, one)
			if one.Kind != record.Intended {
				ended[one.Number] = one.Kind.String()
			}
		}
		print(false)
	}
	print(true)
	return nil
}

// outcome says how a change ended.
func outcome(p painter, e record.Entry) string {
	how := string(e.Result)
	if e.Code != "" {
		how = string(e.Code)
	}
	if e.Kind == record.Settled {
		how = "settled: " + how
	}
	if e.Result == record.Done {
		return p.good(how)
	}
	return p.bad(how)
}

func changeLine(p painter, e record.Numbered, how string) string {
	at := time.UnixMilli(e.At).Local().Format(time.DateTime)
	if e.Kind == record.Started {
		return p.faint(fmt.Sprintf("%s  c%d  host  started", at, e.Number))
	}
	if e.Kind == record.Ruled {
		return p.faint(fmt.Sprintf("%s  c%d  host  policy  %s", at, e.Number, vfs.Printable(e.Policy)))
	}
	where := vfs.Printable(string(e.Path))
	if where == "" {
		where = operator.Place("")
	}
	if e.Kind != record.Intended && len(e.Grants) > 0 {
		return p.faint(fmt.Sprintf("%s  c%d  %s  %s  %s", at, e.Number, e.Grants[0].Name, e.Kind, where))
	}
	who := "host"
	if len(e.Grants) > 0 {
		who = e.Grants[0].Name
	}
	if how == "" {
		how = p.faint("under way")
	}
	if e.To != "" {
		where += " -> " + vfs.Printable(string(e.To))
	}
	return fmt.Sprintf("%s  c%d  %s  %s  %s  %s", at, e.Number, who, e.Op, how, where)
}
