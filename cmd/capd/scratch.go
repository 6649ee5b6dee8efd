package main

import (
	"fmt"

	"capd/config"
	"capd/operator"
	"capd/server"
	"capd/vfs"
)

// size is a flag for a number of bytes, such as 1GiB.
type size int64

// UnmarshalText is [config.ParseSize], of what is above 0.
func (s *size) UnmarshalText(text []byte) error {
	n, err := config.ParseSize(string(text))
	switch {
	case err != nil:
		return usageError{vfs.Message(err)}
	case n == 0:
		return usageError{"the size is 0; write one above 0, such as 1GiB, or leave the flag out"}
	}
	*s = size(n)
	return nil
}

type scratchCommand struct {
	List scratchListCommand `cmd:"" default:"withargs" help:"List what guests keep for themselves (the default)."`
	Rm   scratchRmCommand   `cmd:"" help:"Remove what a guest keeps for itself."`
}

func (scratchCommand) Help() string {
	return `An agent with a grant of capd grant --scratch has a directory that it keeps for itself, beside the
workspace. What is there outlives its grants and the host, until it is removed here. The host need not run.

Examples:
  capd scratch
  capd scratch rm builder`
}

type scratchListCommand struct {
	JSON bool `name:"json" help:"Print a JSON array: guest, usedBytes, limitBytes, mounted and problem."`
	stateFlag
}

func (scratchListCommand) Help() string {
	return `Examples:
  capd scratch list
  capd scratch list --json | jq -r '.[] | select(.mounted | not) | .guest'`
}

func (c *scratchListCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	all, err := server.ListScratch(st)
	if err != nil {
		return err
	}
	return printList(e, c.JSON, all, "GUEST\tSIZE\tOF\tDETAIL", func(s server.Scratch) string {
		detail := "not mounted"
		if s.Mounted {
			detail = "mounted"
		}
		if s.Problem != "" {
			detail = vfs.Printable(s.Problem)
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s", vfs.Printable(s.Guest), config.Size(s.Used), config.Size(s.Limit), detail)
	})
}

type scratchRmCommand struct {
	Guest string `arg:"" help:"The guest, as capd scratch names it."`
	stateFlag
}

func (scratchRmCommand) Help() string {
	return `It cannot be undone. It is refused while the guest has a grant with it: revoke that first.

Examples:
  capd revoke builder && capd scratch rm builder`
}

func (c *scratchRmCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	subject, err := operator.ParseSubject(c.Guest)
	if err != nil {
		return err
	}
	if err := server.RemoveScratch(st, subject); err != nil {
		return err
	}
	e.result("removed what %s kept as scratch", subject.Name())
	return nil
}
