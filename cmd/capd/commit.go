package main

import (
	"strings"

	"capd/client/console"
	"capd/operator"
)

type commitCommand struct {
	Path    string `arg:"" help:"A git mount that is writable, or an overlay on one."`
	Message string `short:"m" required:"" help:"What was changed, and why."`
	Author  string `placeholder:"NAME <EMAIL>" help:"Who changed it (default: the author in the repository's configuration)."`
	Ref     string `placeholder:"BRANCH" help:"The branch that gets the commit; a new one is made (default: the mount's own)."`
	Old     string `placeholder:"COMMIT" help:"Commit only if the branch points here (default: the commit that the mount shows)."`
	If      string `placeholder:"REVIEW" help:"Commit only what capd diff showed; it printed this at its end."`
	JSON    bool   `name:"json" help:"Print a JSON object: the commit's id."`
	stateFlag
}

func (commitCommand) Help() string {
	return `The working tree, the index and every other branch stay as they are. Changes in an overlay must be
applied before they can be committed. Prints the commit's id.

Examples:
  capd commit draft -m 'Say how to start' --ref agent/start
  capd commit draft -m 'Say how to start' --if 5f0c…        no change newer than that diff
  capd commit ref/main -m 'Correct the date' --author 'Ada <ada@example.org>'`
}

func (c *commitCommand) Run(e *env) error {
	name, email, err := author(c.Author)
	if err != nil {
		return err
	}
	w := operator.Commit{Message: c.Message, Author: name, Email: email, Ref: c.Ref, Old: c.Old}
	if c.If != "" {
		if w.If, err = operator.ParseReview(c.If); err != nil {
			return err
		}
	}
	return c.onMount(e, []string{c.Path}, func(e *env, fs *console.VirtualFs, mount string, _ []string) error {
		id, err := fs.Commit(e, mount, w)
		if err != nil {
			return err
		}
		e.done("the commit is %s", id)
		if c.JSON {
			return printJSON(e.stdout, struct {
				Commit string `json:"commit"`
			}{id})
		}
		e.result("%s", id)
		return nil
	})
}

// author reads NAME <EMAIL>.
func author(s string) (name, email string, err error) {
	if s == "" {
		return "", "", nil
	}
	name, rest, ok := strings.Cut(s, "<")
	email, closed := strings.CutSuffix(strings.TrimSpace(rest), ">")
	name = strings.TrimSpace(name)
	if !ok || !closed || name == "" || email == "" || strings.ContainsAny(name+email, "<>\n\x00") {
		return "", "", usageError{"--author is a name and an address, as in 'Ada <ada@example.org>'"}
	}
	return name, email, nil
}
