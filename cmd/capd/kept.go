package main

import (
	"fmt"
	"time"

	"capd/config"
	"capd/operator"
	"capd/server"
	"capd/vfs"
)

type keptCommand struct {
	Forget string `placeholder:"NAME" help:"Drop these changes. It cannot be undone."`
	JSON   bool   `name:"json" help:"Print a JSON array."`
	stateFlag
}

func (keptCommand) Help() string {
	return `Lists the overlays and git mounts whose changes are kept in the state directory, since their URL has
the option keep. Mount the same URL at the same path to see the changes with capd diff, and to apply,
commit or revert them. The host need not run.

Examples:
  capd kept
  capd kept --json | jq -r '.[] | select(.mounted | not) | .url'
  capd kept --forget draft-0a1b2c3d4e5f6071`
}

func (c *keptCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	if c.Forget != "" {
		if err := server.ForgetKept(st, c.Forget); err != nil {
			return err
		}
		e.result("forgot %s", vfs.Printable(c.Forget))
		return nil
	}
	all, err := server.ListKept(e, st)
	if err != nil {
		return err
	}
	p := newPainter(e.stdout)
	return printList(e, c.JSON, all, "NAME\tPATH\tURL\tSIZE\tCHANGED\tDETAIL", func(k server.Kept) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", vfs.Printable(k.Name), p.dir(operator.Place(k.Path)), vfs.Printable(k.URL),
			config.Size(k.Bytes), k.Changed.Local().Format(time.DateTime), keptDetail(k))
	})
}

func keptDetail(k server.Kept) string {
	switch {
	case k.Problem != "":
		return vfs.Printable(k.Problem)
	case k.Mounted:
		return "mounted"
	}
	return "not mounted"
}
