package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"capd/database"
	"capd/record"
)

type auditCommand struct {
	Show       auditShowCommand       `cmd:"" default:"withargs" help:"Print the record (default)."`
	Verify     auditVerifyCommand     `cmd:"" help:"Check that nothing was removed from the record, or changed in it."`
	Checkpoint auditCheckpointCommand `cmd:"" help:"Print a signed checkpoint, to keep elsewhere."`
	Export     auditExportCommand     `cmd:"" help:"Print the record with a signed checkpoint at its end, to keep elsewhere."`
	Key        auditKeyCommand        `cmd:"" help:"Print the public key that checks signatures of checkpoints."`
}

func (auditCommand) Help() string {
	return `The record has every change that guests make: an intent that is on disk before the change shows, and an
outcome. Calls that were refused, and reads, are counted. The host need not run.

Examples:
  capd audit
  capd audit --guest agent --path project/src
  capd audit verify`
}

type auditShowCommand struct {
	Guest  string   `placeholder:"NAME" help:"Only what this guest or grant changed, and what was shared from it."`
	Path   string   `placeholder:"PATH" help:"Only changes at this path of the host's tree, and below it."`
	Since  span     `placeholder:"T" help:"Only what is not older than this, such as 2h or 7d."`
	Kind   []string `placeholder:"KIND" help:"Only entries of these kinds, such as granted or denied; a wrong one shows all that there are."`
	Follow bool     `help:"Go on with what happens from now on, until Ctrl-C."`
	JSON   bool     `name:"json" help:"Print every entry as a JSON object on a line of its own."`
	stateFlag
}

func (auditShowCommand) Help() string {
	return `Prints a line for each change: when, its id, who, what, how it ended, and where. A change whose host was
killed is "settled" by the next start: "done" or "not done" if what is there tells, and "unknown" if not.

--json prints intents and outcomes as they lie in the record. "of" in an outcome is the number of its intent.
Without it --kind intent prints changes with their outcomes, and --kind outcome does the same.

--follow prints changes in the order in which they end, and goes on when the host is started again. Other
than capd watch it does not let changes wait for an approval.

Examples:
  capd audit show --since 2h
  capd audit show --since 1m --follow
  capd audit show --kind decided --kind denied
  capd audit show --guest reviewer --json | jq -r 'select(.kind == "intent") | .path'`
}

func (c *auditShowCommand) Run(e *env) error {
	q := record.Query{Guest: c.Guest, Path: c.Path}
	if c.Since > 0 {
		q.Since = time.Now().Add(-time.Duration(c.Since)).UnixMilli()
	}
	for _, word := range c.Kind {
		k, err := record.ParseKind(word)
		if err != nil {
			return err
		}
		q.Kinds = append(q.Kinds, k)
	}
	if !c.JSON && slices.ContainsFunc(q.Kinds, ofChange) { // its line shows all three
		q.Kinds = append(q.Kinds, record.Intended, record.Ended, record.Settled)
	}
	view, err := c.view(e)
	if err != nil {
		return err
	}
	if c.Follow {
		q.Wait = e.nextEntries
	}
	switch {
	case c.JSON:
		return entriesJSON(e, view, q)
	case c.Follow:
		return followChanges(e, view, q)
	}
	return printChanges(e, view, q)
}

// ofChange reports whether an entry of that kind is about a change.
func ofChange(k record.Kind) bool {
	return k == record.Intended || k == record.Ended || k == record.Settled
}

// following is how often the record is looked at for more.
const following = 250 * time.Millisecond

// nextEntries prints what there is and waits until there may be more.
func (e *env) nextEntries(ctx context.Context) error {
	if err := e.stdout.Flush(); err != nil {
		return err
	}
	select {
	case <-time.After(following):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followChanges prints a line for each change when it has ended.
func followChanges(e *env, view *database.View, q record.Query) error {
	p := newPainter(e.stdout)
	begun := map[int64]record.Numbered{}
	for one, err := range record.Entries(e, view, q) {
		if err != nil {
			return err
		}
		switch one.Kind {
		case record.Ended, record.Settled:
			if change, ok := begun[one.Of]; ok {
				fmt.Fprintln(e.stdout, changeLine(p, change, outcome(p, one.Entry)))
			}
			delete(begun, one.Of)
		case record.Intended:
			begun[one.Number] = one
		default:
			fmt.Fprintln(e.stdout, changeLine(p, one, one.Kind.String()))
		}
	}
	return nil
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
	enc := newEncoder(e.stdout)
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
