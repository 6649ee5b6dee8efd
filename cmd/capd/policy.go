package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"capd/config"
	"capd/operator"
	"capd/vfs"
)

type policyCommand struct {
	Show policyShowCommand `cmd:"" help:"Show the rules that hold, and where each is written."`
	Set  policySetCommand  `cmd:"" help:"Set the rules that hold besides those of the configuration."`
	Rm   policyRmCommand   `cmd:"" help:"Take back rules that were set."`
	Log  policyLogCommand  `cmd:"" help:"Show what the rules were, and since when."`
}

func (policyCommand) Help() string {
	return `Rules say what guests may do with which paths, besides the rights of their grants; docs/policy.md
describes them. Those of the configuration and those that were set here hold together.

Examples:
  capd policy show
  capd policy set rules.yaml
  capd policy log`
}

type policyShowCommand struct {
	JSON bool `name:"json" help:"Print a JSON object: hash, default and rules."`
	stateFlag
}

func (policyShowCommand) Help() string {
	return `A deny wins over an ask, and an ask over an allow, whatever their order. The last line has the hash of
all rules, for capd policy set --if.

Examples:
  capd policy show
  capd policy show --json | jq '.rules[] | select(.source == "set")'`
}

func (c *policyShowCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	p, err := con.Policy(e)
	if err != nil {
		return err
	}
	if c.JSON {
		p.Rules = append([]operator.PolicyRule{}, p.Rules...)
		return printJSON(e.stdout, p)
	}
	err = printList(e, false, p.Rules, "ID\tEFFECT\tSUBJECT\tROOT\tOPERATIONS\tPATTERNS\tSOURCE", func(r operator.PolicyRule) string {
		return strings.Join([]string{r.ID, string(r.Effect), orAll(r.Subject, "everybody"), orAll(r.Root.String(), ""), orAll(strings.Join(r.Operations, ","), "all"), shownPatterns(r.Rule), vfs.Printable(r.Source)}, "\t")
	})
	if err != nil {
		return err
	}
	silent := "what the rights of the grant say"
	if p.Default == operator.RuleDeny {
		silent = "nothing is allowed"
	}
	_, err = fmt.Fprintf(e.stdout, "\nWhere no rule matches: %s\nHash: %s\n", silent, p.Hash)
	return err
}

func orAll(s, all string) string { return cmp.Or(vfs.Printable(s), all) }

// shownPatterns shows the patterns of a rule, and what it bounds.
func shownPatterns(r operator.Rule) string {
	text := strings.Join(r.Patterns, " ")
	for _, more := range []struct{ name, value string }{
		{"except", strings.Join(r.Except, " ")}, {"symlinks", r.Symlinks}, {"hardlinks", r.Hardlinks}, {"audit", r.Audit},
	} {
		if more.value != "" {
			text += "; " + more.name + " " + more.value
		}
	}
	if r.MaxFileBytes > 0 {
		text += "; files of at most " + exact(r.MaxFileBytes, true)
	}
	return vfs.Printable(text)
}

type policySetCommand struct {
	File string `arg:"" help:"A list of rules in YAML or JSON, as in a configuration; - for standard input."`
	If   string `placeholder:"HASH" help:"Only if the rules that hold now have this hash (default: whatever holds now)."`
	stateFlag
}

func (policySetCommand) Help() string {
	return `Replaces the rules that were set before; those of the configuration stay. The rules hold at once, also for
what guests have open, and after a restart. An empty file, or [], takes all back. Prints the new hash.

Examples:
  capd policy set rules.yaml
  echo '[{effect: deny, subject: agent, patterns: ["project/docs/**"], operations: [write]}]' | capd policy set -
  capd policy set rules.yaml --if $(capd policy show --json | jq -r .hash)`
}

func (c *policySetCommand) Run(e *env) error {
	text, err := c.read(e)
	if err != nil {
		return err
	}
	if _, err := config.ParseRules(c.File, text); err != nil { // it names the file
		return err
	}
	con, err := c.console(e)
	if err != nil {
		return err
	}
	if c.If == "" {
		now, err := con.Policy(e)
		if err != nil {
			return err
		}
		c.If = now.Hash
	}
	hash, err := con.SetPolicy(e, string(text), c.If)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, hash)
	return err
}

// read reads the rules: at most one byte more than they may have.
func (c *policySetCommand) read(e *env) ([]byte, error) {
	in := io.Reader(nil)
	if c.File == "-" {
		in = e.stdin
	} else {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, unreadable(c.File, err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, config.MaxFile+1))
	if err != nil {
		return nil, unreadable(c.File, err)
	}
	return text, nil
}

type policyRmCommand struct {
	Rule []string `arg:"" help:"The id of a rule, as capd policy show prints it."`
	stateFlag
}

func (policyRmCommand) Help() string {
	return `Prints the new hash. A rule of the configuration is removed from its file.

Examples:
  capd policy rm 5f0c2a91`
}

func (c *policyRmCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	p, err := con.Policy(e)
	if err != nil {
		return err
	}
	text, err := without(p, c.Rule)
	if err != nil {
		return err
	}
	hash, err := con.SetPolicy(e, text, p.Hash)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.stdout, hash)
	return err
}

// without returns the rules of p that were set, without those that have one of ids.
func without(p operator.Policy, ids []string) (string, error) {
	for _, id := range ids {
		i := slices.IndexFunc(p.Rules, func(r operator.PolicyRule) bool { return r.ID == id })
		switch {
		case i < 0:
			return "", vfs.At(id, vfs.Errorf(vfs.NotFound, "no rule has this id; see capd policy show"))
		case p.Rules[i].Source != operator.SetSource:
			return "", vfs.At(id, vfs.Errorf(vfs.Denied, "this rule stands in the configuration (%s); remove it there", vfs.Printable(p.Rules[i].Source)))
		}
	}
	left := []operator.Rule{}
	for _, r := range p.Rules {
		if r.Source == operator.SetSource && !slices.Contains(ids, r.ID) {
			r.Source = ""
			left = append(left, r.Rule)
		}
	}
	text, err := json.Marshal(left)
	return string(text), err
}

type policyLogCommand struct {
	JSON bool `name:"json" help:"Print a JSON array: hash, since and rules of each."`
	Last int  `default:"100" placeholder:"N" help:"Show the last N, at most 100."`
	stateFlag
}

func (policyLogCommand) Help() string {
	return `The latest is first. A policy that was set again stands where it was last set.

Examples:
  capd policy log
  capd policy log --json | jq '.[1]'`
}

func (c *policyLogCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	all, err := con.Policies(e, c.Last)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "SINCE\tRULES\tHASH", func(v operator.PolicyVersion) string {
		return fmt.Sprintf("%s\t%d\t%s", v.Since.Format(time.DateTime), len(v.Rules), v.Hash)
	})
}
