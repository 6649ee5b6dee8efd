package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"capd/client/console"
	"capd/operator"
	"capd/vfs"
)

type watchCommand struct {
	Since *uint64 `placeholder:"N" help:"Begin at that entry of the record, such as 0 (default: at what happens from now on)."`
	Ask   bool    `help:"Show each change that needs an approval, and read the answer: o (once), a (always) or d (deny)."`
	JSON  bool    `name:"json" help:"Print each entry as a JSON object on a line of its own."`
	stateFlag
}

func (watchCommand) Help() string {
	return `Prints what happens in the host: changes, requests for approvals, decisions. While it runs, changes that need
an approval wait for a decision; without it they are refused, unless the configuration says approvals: wait.
It ends with Ctrl-C.

Each entry has a number. --since continues after an interruption: with one more than the last number.

Examples:
  capd watch
  capd watch --ask
  capd watch --json --since 1200 | jq -c 'select(.kind == "asked")'`
}

// longPoll is how long a watch waits for an event in one call.
const longPoll = 30 * time.Second

func (c *watchCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	w := &follower{watchCommand: c, e: e, con: con, in: bufio.NewReader(e.stdin)}
	if c.Since != nil {
		w.next = *c.Since
	} else if _, w.next, _, err = con.Events(e, math.MaxUint64, 0); err != nil {
		return err
	}
	if !c.JSON {
		fmt.Fprintln(e.stderr, "Watching. Changes that need an approval wait for capd ask. Ctrl-C ends it.")
	}
	for {
		all, next, missed, err := con.Events(e, w.next, longPoll)
		if err != nil {
			return err
		}
		if missed > 0 {
			fmt.Fprintf(e.stderr, "capd: %d entries before number %d are not in the record any more\n", missed, w.next+missed)
		}
		for _, event := range all {
			if err := w.show(event); err != nil {
				return err
			}
		}
		if err := e.stdout.Flush(); err != nil {
			return err
		}
		w.next = next
	}
}

// follower is a watchCommand that runs.
type follower struct {
	*watchCommand
	e    *env
	con  *console.Console
	in   *bufio.Reader
	next uint64
}

// entry is what is shown of an entry of the record.
type entry struct {
	At     int64  `json:"at"`
	Kind   string `json:"kind"`
	Of     int64  `json:"of"`
	Grants []struct {
		Name string `json:"name"`
	} `json:"grants"`
	Subject string   `json:"subject"`
	Invite  string   `json:"invite"`
	Rights  string   `json:"rights"`
	Op      string   `json:"op"`
	Path    anyPath  `json:"path"`
	To      anyPath  `json:"to"`
	Ask     string   `json:"ask"`
	Why     []string `json:"why"`
	Answer  string   `json:"answer"`
	Hooks   []struct {
		Name string `json:"name"`
		Said string `json:"said"`
	} `json:"hooks"`
	Policy string `json:"policy"`
	Before int64  `json:"before"`
	Result string `json:"result"`
	Code   string `json:"code"`
	Times  int64  `json:"times"`
	Dirs   []struct {
		Path  anyPath `json:"path"`
		Reads int64   `json:"reads"`
		Lists int64   `json:"lists"`
	} `json:"dirs"`
	Said string `json:"said"`
}

// anyPath is a path in an entry: a text, or an object with its bytes.
type anyPath string

// UnmarshalJSON implements json.Unmarshaler.
func (p *anyPath) UnmarshalJSON(text []byte) error {
	var of struct{ Bytes []byte }
	if json.Unmarshal(text, (*string)(p)) == nil {
		return nil
	}
	err := json.Unmarshal(text, &of)
	*p = anyPath(of.Bytes)
	return err
}

func (w *follower) show(event operator.Event) error {
	if w.JSON {
		fmt.Fprintf(w.e.stdout, `{"n":%d,%s`+"\n", event.Number, strings.TrimPrefix(string(event.Entry), "{"))
		return nil
	}
	var is entry
	if err := json.Unmarshal(event.Entry, &is); err != nil {
		return vfs.Errorf(vfs.Corrupt, "entry %d of the record makes no sense", event.Number)
	}
	fmt.Fprintf(w.e.stdout, "%s  %6d  %s\n", time.UnixMilli(is.At).Format(time.TimeOnly), event.Number, is)
	if is.Kind != "asked" {
		return nil
	}
	if !w.Ask {
		fmt.Fprintf(w.e.stderr, "capd ask %s shows it; capd ask %[1]s once, always or deny decides\n", shortID(is.Ask))
		return nil
	}
	return w.ask(is.Ask)
}

// String describes e in a line.
func (e entry) String() string {
	parts := []string{fmt.Sprintf("%-8s", e.Kind)}
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(e.Grants) > 0 {
		add(e.Grants[0].Name)
	} else {
		add(operator.Subject(e.Subject).Name())
		add(e.Invite)
	}
	if e.Op != "" {
		add(changeOf(e.Op, string(e.Path), string(e.To)))
	}
	if e.Op == "request" && e.Rights != "" {
		add("with " + e.Rights)
	}
	add(shortID(e.Ask))
	add(e.Answer)
	for _, h := range e.Hooks {
		if h.Said != "" {
			add(vfs.Printable(fmt.Sprintf("(hook %s: %s)", h.Name, h.Said)))
		}
	}
	add(vfs.Printable(e.Policy))
	if e.Before > 0 {
		add(fmt.Sprintf("the entries before %d", e.Before))
	}
	if e.Kind == "outcome" || e.Kind == "settled" {
		add(fmt.Sprintf("of %d: %s", e.Of, e.Result))
	}
	if e.Kind == "denied" {
		add(e.Code)
		if e.Times > 1 {
			add(fmt.Sprintf("%d times", e.Times))
		}
	}
	for _, d := range e.Dirs[:min(len(e.Dirs), 3)] {
		add(fmt.Sprintf("%s (%d, listed %d)", shownDir(string(d.Path)), d.Reads, d.Lists))
	}
	if more := len(e.Dirs) - 3; more > 0 {
		add(fmt.Sprintf("and in %d more directories", more))
	}
	add(vfs.Printable(strings.Join(e.Why, "; ")))
	add(vfs.Printable(e.Said))
	return strings.Join(parts, " ")
}

var letters = map[string]operator.Answer{
	"o": operator.Once, "a": operator.Always, "d": operator.Deny, "once": operator.Once, "always": operator.Always, "deny": operator.Deny,
}

// ask shows a request and reads the answer. Meanwhile the host still takes it that somebody listens.
func (w *follower) ask(id string) error {
	a, err := w.con.Ask(w.e, id)
	if vfs.CodeOf(err) == vfs.NotFound || err == nil && a.Answer != "" {
		return nil // it is over
	}
	if err != nil {
		return err
	}
	fmt.Fprint(w.e.stdout, described(a))
	if err := w.e.stdout.Flush(); err != nil {
		return err
	}
	defer w.listen()()
	answer, err := w.answer()
	if err != nil || answer == "" {
		return err
	}
	if _, err := w.con.Decide(w.e, id, operator.Verdict{Answer: answer}); err != nil {
		fmt.Fprintf(w.e.stderr, "capd: %v\n", err)
	}
	return nil
}

// answer reads an answer, until it is one. "" leaves the request for later, as the end of the input does.
func (w *follower) answer() (operator.Answer, error) {
	for {
		fmt.Fprint(w.e.stderr, "o(nce), a(lways), d(eny), or Enter to leave it: ")
		line, err := w.in.ReadString('\n')
		if err != nil && err != io.EOF {
			return "", err
		}
		word := strings.ToLower(strings.TrimSpace(line))
		if answer := letters[word]; answer != "" || word == "" {
			return answer, nil
		}
		fmt.Fprint(w.e.stderr, "that is no answer: ")
	}
}

// listen goes on listening until stop is called.
func (w *follower) listen() (stop func()) {
	ctx, cancel := context.WithCancel(w.e)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := w.next; ctx.Err() == nil; {
			_, next, _, err := w.con.Events(ctx, at, longPoll)
			if err != nil {
				return
			}
			at = next
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
