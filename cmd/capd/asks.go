package main

import (
	"fmt"
	"strings"
	"time"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

type asksCommand struct {
	All  bool `help:"Show those too that were decided in the last 30 days."`
	JSON bool `name:"json" help:"Print a JSON array, oldest first."`
	stateFlag
}

func (asksCommand) Help() string {
	return `A guest's change waits here for a yes if the patterns of its mount guard the path (capd mounts --json),
or if a rule or a hook asks. So does a read that a rule asks about, and the request of somebody who
was invited (capd invite). The call of the guest waits for two minutes, and the request for a day: if the guest makes the same
change again within 10 minutes after a yes, it is made.

A change waits only if somebody listens (capd watch), or if the configuration says approvals: wait.
Otherwise it is refused at once.

Examples:
  capd asks
  capd asks --json | jq -r '.[].id'
  capd ask 5f3a2b          what it would change
  capd ask 5f3a2b once`
}

func (c *asksCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	all, err := con.Asks(e, c.All)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "ID\tGUEST\tCHANGE\tWHY\tASKED\tANSWER", askLine)
}

// askLine is the line of a in the table of requests; capd ask shows all of it.
func askLine(a operator.Ask) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", shortID(a.ID), a.Guest, cell(askedFor(a)), cell(whyOf(a)), a.Asked.Local().Format(time.DateTime), answerOf(a))
}

// askedFor describes what a asks for. A path is a guest's words.
func askedFor(a operator.Ask) string {
	text := changeOf(a.Operation, a.Path, a.To)
	if a.Root != "" {
		text += " with " + a.Access.String()
	}
	return text
}

// whyOf says what asks: a rule, or with a request its reason, which is a guest's words.
func whyOf(a operator.Ask) string {
	if a.Words != "" {
		return `"` + vfs.Printable(a.Words) + `"`
	}
	return vfs.Printable(strings.Join(a.Why, "; "))
}

// shortID is as much of an id as people type.
func shortID(id string) string { return id[:min(8, len(id))] }

// changeOf describes a change. The paths are a guest's words.
func changeOf(operation, path, to string) string {
	text := operation + " " + shownPath(path)
	if to != "" {
		text += " to " + shownPath(to)
	}
	return text
}

func answerOf(a operator.Ask) string {
	switch {
	case a.Answer == "":
		return "waits"
	case a.Used && a.Root != "":
		return string(a.Answer) + ", " + a.Grant
	case a.Used:
		return string(a.Answer) + ", made"
	}
	return string(a.Answer)
}

type askCommand struct {
	ID      string `arg:"" help:"The id of the request, or the first 6 digits of it or more."`
	Answer  string `arg:"" optional:"" default:"" enum:",once,always,deny" help:"once, always or deny. Without one the request is shown."`
	Reason  string `placeholder:"TEXT" help:"Why not: the guest is told. For deny."`
	Pattern string `placeholder:"P" help:"Approve whatever matches, such as project/.vscode/**, and not that path alone. For always."`
	Rights  rights `placeholder:"R,…" help:"Give only these rights of those that were asked for. For once and always, about a request."`
	For     span   `placeholder:"T" help:"How long it holds, such as 8h (default: 30 days). For always."`
	JSON    bool   `name:"json" help:"Print the request as a JSON object."`
	stateFlag
}

func (askCommand) Help() string {
	return `once approves exactly what was asked for: that content, by that grant, over what is there now, within 10
minutes. always approves that operation on that path through the grant, whatever is written, for 30
days; capd approvals lists such approvals and ends them. deny refuses the change.

A request of somebody who was invited (capd invite) is answered alike. once makes a grant that ends when no
connection has used it for 10 minutes, always one that ends after 30 days; capd grants lists both. --rights gives less than
was asked for.

What the guest chose, the path and the text, is shown behind "> ".

Examples:
  capd ask 5f3a2b                       show what would change
  capd ask 5f3a2b once
  capd ask 5f3a2b deny --reason 'use the branch main'
  capd ask 5f3a2b always --for 8h
  capd ask 5f3a2b once --rights read,list
  capd ask 5f3a2b always --pattern 'project/.vscode/**'`
}

func (c *askCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	if c.Answer == "" {
		a, err := con.Ask(e, c.ID)
		if err != nil {
			return err
		}
		if c.JSON {
			return printJSON(e.stdout, a)
		}
		fmt.Fprint(e.stdout, described(a))
		return nil
	}
	id, err := con.Decide(e, c.ID, operator.Verdict{Answer: operator.Answer(c.Answer), Reason: c.Reason, Pattern: trimPath(c.Pattern), For: time.Duration(c.For), Rights: membrane.Rights(c.Rights)})
	if err != nil {
		return err
	}
	e.result("%s: %s", shortID(id), c.Answer)
	return nil
}

// described shows a request. Everything that the guest chose is behind "> ".
func described(a operator.Ask) string {
	var b strings.Builder
	if a.Root != "" {
		describeRequest(&b, a)
	} else {
		fmt.Fprintf(&b, "%s  %s (%s) asks\n", shortID(a.ID), a.Guest, a.Grant)
		quoted(&b, changeOf(a.Operation, a.Path, a.To))
		fmt.Fprintf(&b, "because of %s\n", vfs.Printable(strings.Join(a.Why, "; ")))
	}
	if a.Diff != "" {
		for line := range strings.Lines(a.Diff) {
			fmt.Fprintf(&b, "> %s\n", tabbed(strings.TrimSuffix(line, "\n")))
		}
	}
	if a.Answer != "" {
		fmt.Fprintf(&b, "answered: %s, by %s\n", answerOf(a), a.By)
	}
	return b.String()
}

// describeRequest shows who asks for which grant.
func describeRequest(b *strings.Builder, a operator.Ask) {
	fmt.Fprintf(b, "%s  %s was invited, and asks for a grant in the root %s\n", shortID(a.ID), a.Guest, a.Root)
	quoted(b, a.Path)
	fmt.Fprintf(b, "with the rights %s\n", a.Access)
	for line := range strings.Lines(a.Words) {
		quoted(b, strings.TrimSuffix(line, "\n"))
	}
	if a.Given != 0 {
		fmt.Fprintf(b, "given: %s\n", a.Given)
	}
}

// quoted writes a line of a guest's words.
func quoted(b *strings.Builder, line string) { fmt.Fprintf(b, "> %s\n", vfs.Printable(line)) }

type approvalsCommand struct {
	End  int64 `placeholder:"N" help:"End the approval with that number."`
	JSON bool  `name:"json" help:"Print a JSON array."`
	stateFlag
}

func (approvalsCommand) Help() string {
	return `Lists what was approved with capd ask ID always, and still holds. An approval also ends with its grant.

Examples:
  capd approvals
  capd approvals --end 3`
}

func (c *approvalsCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	if c.End != 0 {
		if err := con.EndApproval(e, c.End); err != nil {
			return err
		}
		e.result("ended approval %d", c.End)
		return nil
	}
	all, err := con.Approvals(e)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "NUMBER\tGRANT\tCHANGE\tUNTIL", func(s operator.Standing) string {
		change := changeOf(s.Operation, s.Path, s.To)
		if s.Pattern != "" {
			change = changeOf(s.Operation, s.Pattern, "")
		}
		return fmt.Sprintf("%d\t%s\t%s\t%s", s.ID, s.Grant, change, s.Until.Local().Format(time.DateTime))
	})
}

// tabbed is vfs.Printable for a line of a file: tabs stay.
func tabbed(line string) string {
	parts := strings.Split(line, "\t")
	for i := range parts {
		parts[i] = vfs.Printable(parts[i])
	}
	return strings.Join(parts, "\t")
}
