package main

import (
	"cmp"
	"fmt"
	"strings"

	"capd/operator"
	"capd/vfs"
)

type rootsCommand struct {
	JSON bool `name:"json" help:"Print a JSON array, in the order of the configuration."`
	stateFlag
}

func (rootsCommand) Help() string {
	return `A root is a mount with a purpose, which the configuration declares. Its kind says what each kind of
guest may do there by default: docs/roots.md has the table. capd grant --root grants one.

Examples:
  capd roots
  capd roots --json | jq -r '.[] | select(.kind == "workspace") | .id'`
}

func (c *rootsCommand) Run(e *env) error {
	con, err := c.console(e)
	if err != nil {
		return err
	}
	all, err := con.Roots(e)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "ID\tKIND\tACCESS\tPATH\tNAME\tLABELS", func(r operator.Root) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", r.ID, r.Kind, accessOf(r), operator.Place(r.Path), vfs.Printable(r.Name), vfs.Printable(strings.Join(r.Labels, ", ")))
	})
}

// accessOf says how guests reach a workspace, and who works in one draft: "ro, agent".
func accessOf(r operator.Root) string {
	switch {
	case r.Drafted():
		return r.Access + ", " + cmp.Or(r.Scope, operator.AgentScope)
	case r.Kind == operator.Workspace:
		return operator.AccessRW
	}
	return ""
}
