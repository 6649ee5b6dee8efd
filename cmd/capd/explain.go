package main

import (
	"fmt"
	"slices"
	"strings"

	"capd/client"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

type explainCommand struct {
	Args []string `arg:"" name:"[guest] right path" help:"Who (left out: the holder of the capability), what, and where: read, write, delete, list, metadata or move."`
	To   string   `placeholder:"P" help:"Where to, for move."`
	JSON bool     `name:"json" help:"Print a JSON array with an object for each grant; for a guest, one object."`
	capFlag
	stateFlag
}

func (explainCommand) Help() string {
	return `It says yes or no for each grant of the guest, and what decides, in the order in which it is asked: the
grant and its end, rights, rules with the place where they are written, what waits for an approval, quotas,
the mount, and what is stored there. A change is tried up to the point at which it would show, and then
dropped. Nobody is asked for an approval.

The operator of a host names the guest, or the id of a grant, and a path from the top of the tree. A guest
names neither, and gives its own locator and paths; it is told what its calls would be told, and nothing of
hooks.

The exit code is 1 if no grant allows it.

Examples:
  capd explain reviewer write project/docs/a.md
  capd explain g3 move project/a --to project/b
  capd explain reviewer read project/.env --json | jq -r '.[].reasons[] | .what + ": " + .text'
  capd explain write docs/a.md --cap LOCATOR`
}

func (c *explainCommand) Run(e *env) error {
	if len(c.Args) != 2 && len(c.Args) != 3 {
		return usageError{"give a right and a path, and before them a guest, unless you ask as one"}
	}
	last := c.Args[len(c.Args)-2:]
	right, err := oneRight(last[0])
	if err != nil {
		return err
	}
	path, to := trimPath(last[1]), trimPath(c.To)
	if (right == membrane.Move) != (to != "") {
		return usageError{"--to says where to, for move alone"}
	}
	if len(c.Args) == 2 {
		return c.guest(e, right, path, to)
	}
	return c.operator(e, right, path, to)
}

func oneRight(word string) (membrane.Rights, error) {
	r, err := membrane.ParseRights(word)
	if err != nil {
		return 0, usageError{vfs.Message(err)}
	}
	if len(r.Names()) != 1 {
		return 0, usageError{"ask about one right at a time"}
	}
	return r, nil
}

func (c *explainCommand) operator(e *env, right membrane.Rights, path, to string) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	all, err := con.Explain(e, c.Args[0], right, path, to)
	if err != nil {
		return err
	}
	err = exitError(exitRefused)
	for _, x := range all {
		if x.Answer != operator.No {
			err = nil
		}
		if !c.JSON {
			printExplanation(e, x)
		}
	}
	if c.JSON {
		if failed := printJSON(e.stdout, all); failed != nil {
			return failed
		}
	}
	return err
}

func printExplanation(e *env, x operator.Explanation) {
	p := newPainter(e.stdout)
	fmt.Fprintf(e.stdout, "%s %s: %s", x.Grant, vfs.Printable(x.Guest), headline(p, x))
	if x.Code != "" {
		fmt.Fprintf(e.stdout, ": %s", x.Code)
	}
	if x.Message != x.Code {
		fmt.Fprintf(e.stdout, ": %s", vfs.Printable(inWords(ofTree(x.Message))))
	}
	fmt.Fprintln(e.stdout)
	w := newColumns(e.stdout)
	for _, r := range x.Reasons {
		what := r.What
		if r.InMount {
			what += " (mount)"
		}
		text := vfs.Printable(inWords(ofTree(r.Text)))
		if r.Source != "" {
			text += " [" + vfs.Printable(r.Source) + "]"
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\n", what, r.Says, text)
	}
	_ = w.Flush() // an error shows when the output is closed
}

// headline says yes or no, and who else is asked before a change.
func headline(p painter, x operator.Explanation) string {
	hooked := ""
	if slices.ContainsFunc(x.Reasons, func(r operator.Reason) bool { return r.What == "hook" }) {
		hooked = ", unless a hook denies it"
	}
	return answered(p, x.Answer, hooked)
}

// answered says yes or no. more follows a yes.
func answered(p painter, o operator.Outcome, more string) string {
	switch o {
	case operator.No:
		return p.bad("no")
	case operator.After:
		return p.secret("yes, after an approval" + more)
	}
	return p.good("yes" + more)
}

// explainedJSON is what a guest is told, as --json prints it.
type explainedJSON struct {
	Answer  operator.Outcome `json:"answer"`
	Reasons []string         `json:"reasons"`
}

func (c *explainCommand) guest(e *env, right membrane.Rights, path, to string) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	x, err := d.Explain(e, right, path, to)
	if err != nil {
		return err
	}
	answer := explainedJSON{outcomeOf(x), append([]string{}, x.Reasons...)}
	if c.JSON {
		err = printJSON(e.stdout, answer)
	} else {
		_, err = fmt.Fprintln(e.stdout, strings.Join(told(newPainter(e.stdout), answer), "\n  "))
	}
	if err == nil && !x.Allowed {
		err = exitError(exitRefused)
	}
	return err
}

// told returns the lines of what a guest is told. The last reason of a no is the error that its call would get.
func told(p painter, x explainedJSON) []string {
	head, reasons := answered(p, x.Answer, ""), x.Reasons
	if n := len(reasons) - 1; x.Answer == operator.No && n >= 0 {
		head += ": " + vfs.Printable(inWords(strings.TrimPrefix(reasons[n], "capd: ")))
		reasons = reasons[:n]
	}
	lines := []string{head}
	for _, r := range reasons {
		lines = append(lines, vfs.Printable(inWords(r)))
	}
	return lines
}

func outcomeOf(x client.Explanation) operator.Outcome {
	switch {
	case !x.Allowed:
		return operator.No
	case x.Asks:
		return operator.After
	}
	return operator.Yes
}
