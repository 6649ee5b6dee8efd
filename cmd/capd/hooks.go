package main

import (
	"fmt"
	"strings"

	"capd/operator"
	"capd/vfs"
)

type hooksCommand struct {
	List hooksListCommand `cmd:"" default:"withargs" help:"List the hooks, in the order in which they are asked."`
	Rm   hooksRmCommand   `cmd:"" help:"Remove a hook that a program has registered."`
}

func (hooksCommand) Help() string {
	return `A hook is asked before guests change something, or told afterwards: a program that the configuration
names, or a capability that a program registers. docs/hooks.md describes hooks.

Examples:
  capd hooks
  capd hooks --json | jq '.[] | select(.gone)'
  capd hooks rm lint`
}

type hooksListCommand struct {
	JSON bool `name:"json" help:"Print a JSON array."`
	stateFlag
}

func (hooksListCommand) Help() string {
	return `STATE says "gone" of a capability that nobody serves: what it would be asked about is denied. BEHIND is how
many entries of the record a hook was not told of yet.

Examples:
  capd hooks
  capd hooks list --json`
}

func (c *hooksListCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	all, err := con.Hooks(e)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "NAME\tWHEN\tCHANGES\tPATTERNS\tSTATE\tBEHIND\tSOURCE", func(h operator.HookState) string {
		behind := ""
		if h.After {
			behind = fmt.Sprint(h.Behind)
		}
		return strings.Join([]string{h.Name, hookWhen(h.Hook), orAll(strings.Join(h.Operations, ","), "all"), orAll(strings.Join(h.Patterns, " "), "all"),
			hookState(h), behind, vfs.Printable(h.Source)}, "\t")
	})
}

func hookWhen(h operator.Hook) string {
	var all []string
	if h.Before && h.Observe {
		all = append(all, "before (observes)")
	} else if h.Before {
		all = append(all, "before")
	}
	if h.After {
		all = append(all, "after")
	}
	return strings.Join(all, ", ")
}

func hookState(h operator.HookState) string {
	switch {
	case h.Gone:
		return "gone"
	case h.Failing != "":
		return vfs.Printable("failing: " + h.Failing)
	}
	return "ready"
}

type hooksRmCommand struct {
	Name string `arg:"" help:"The name of the hook."`
	stateFlag
}

func (hooksRmCommand) Help() string {
	return `The changes that it would be asked about are no longer denied because of it. A hook of the configuration
is removed from its file.

Examples:
  capd hooks rm lint`
}

func (c *hooksRmCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	if err := con.RemoveHook(e, c.Name); err != nil {
		return err
	}
	e.result("removed hook %s", c.Name)
	return nil
}
