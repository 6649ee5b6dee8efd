package main

import (
	"errors"
	"fmt"
	"os"

	"capd/client/console"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/diff"
)

type applyCommand struct {
	Paths []string `arg:"" help:"An overlay's mount, or paths in it."`
	If    string   `placeholder:"REVIEW" help:"Apply only what capd diff showed; it printed this at its end."`
	Undo  string   `placeholder:"ID" help:"Undo the apply with this id; its changes wait in the overlay again."`
	Ours  []string `placeholder:"PATH" help:"If the tree below has changed at this path too, replace it with the overlay's version. Can be repeated."`

	Theirs []string `placeholder:"PATH" help:"Keep the tree below as it is at this path, and drop the overlay's version for good. Can be repeated."`

	Guarded bool `help:"Apply changes of guarded files too, such as .git/config; without it they are listed and nothing is applied."`

	JSON bool `name:"json" help:"Print a JSON object: the id for --undo, how many changes, and conflicts."`
	stateFlag
}

func (applyCommand) Help() string {
	return `All changes are applied, or none. If the tree below has changed at a path too, apply lists every such
path and changes nothing. What --theirs drops is named, and --undo does not bring it back.

Examples:
  capd apply draft
  capd apply draft/src/main.go draft/README.md
  capd apply draft --if 5f0c…        only what that diff showed
  capd apply draft --theirs draft/go.mod --ours draft/src
  capd apply draft --guarded         .git/config and its like too
  capd apply draft --undo ID`
}

func (c *applyCommand) Run(e *env) error {
	return c.onMount(e, c.Paths, c.apply)
}

func (c *applyCommand) apply(e *env, fs *console.VirtualFs, mount string, paths []string) error {
	if c.Undo != "" {
		if err := fs.Undo(e, mount, c.Undo); err != nil {
			return err
		}
		e.result("undone; what was let in waits in the overlay again")
		return nil
	}
	o := operator.ApplyOptions{Paths: paths, Guarded: c.Guarded}
	var err error
	if o.Ours, err = c.side(e, fs, mount, c.Ours); err != nil {
		return err
	}
	if o.Theirs, err = c.side(e, fs, mount, c.Theirs); err != nil {
		return err
	}
	if c.If != "" {
		if o.If, err = operator.ParseReview(c.If); err != nil {
			return err
		}
	}
	p := newProgress(e, nil, "applied")
	defer p.end()
	a, err := fs.Apply(e, mount, o, p.count)
	p.end()
	if c.JSON {
		return c.print(e, a, err)
	}
	if err != nil {
		if clash, ok := errors.AsType[*diff.Conflicts](err); ok && len(clash.Paths) > 0 {
			first := operator.Quote(vfs.Join(mount, clash.Paths[0].Path))
			fmt.Fprintf(e.stderr, "capd: to settle a conflict, --theirs %s keeps the tree below, and --ours %s replaces it with the overlay's version\n", first, first)
		}
		return err
	}
	for _, path := range a.Dropped {
		fmt.Fprintf(e.stderr, "capd: dropped what was written to %s; --undo does not bring it back\n", vfs.Printable(vfs.Join(mount, path)))
	}
	if more := a.DroppedTotal - len(a.Dropped); more > 0 {
		fmt.Fprintf(e.stderr, "capd: dropped what was written to %s more\n", count(more, "path"))
	}
	if a.Changes == 0 {
		fmt.Fprintln(e.stdout, "nothing to apply")
		return nil
	}
	e.result("applied %s; to undo this: %s apply %s --undo %s%s",
		count(a.Changes, "change"), self(), operator.Quote(mount), a.ID, c.flag())
	return nil
}

// side returns paths relative to the mount.
func (c *applyCommand) side(e *env, fs *console.VirtualFs, mount string, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	at, in, err := mounted(e, fs, paths)
	if err == nil && (at != mount || in == nil) {
		err = usageError{"--ours and --theirs take paths in the mount that is applied"}
	}
	return in, err
}

// appliedJSON is an apply as --json prints it.
type appliedJSON struct {
	operator.Applied
	Conflicts []diff.Conflict `json:"conflicts,omitempty"` // if there are any, nothing was changed
}

// print prints what an apply did, or why it did nothing.
func (c *applyCommand) print(e *env, a operator.Applied, err error) error {
	out := appliedJSON{Applied: a}
	conflicts, clash := errors.AsType[*diff.Conflicts](err)
	if err != nil && !clash {
		return err
	}
	if clash {
		out.Conflicts = conflicts.Paths
	} else {
		e.done("applied %s as %s", count(a.Changes, "change"), a.ID)
	}
	return errors.Join(printJSON(e.stdout, out), err)
}

// flag returns --state for a command that is printed.
func (f stateFlag) flag() string {
	if f.State == "" || f.State == os.Getenv("CAPD_STATE") {
		return ""
	}
	return " --state " + operator.Quote(f.State)
}

type revertCommand struct {
	Paths []string `arg:"" help:"An overlay's or a git mount's path, or paths in it."`
	stateFlag
}

func (revertCommand) Help() string {
	return `Drops the changes at and below the paths that were neither applied nor committed. This cannot be undone.

Examples:
  capd revert draft/src
  capd revert draft`
}

func (c *revertCommand) Run(e *env) error {
	return c.onMount(e, c.Paths, c.revert)
}

func (c *revertCommand) revert(e *env, fs *console.VirtualFs, mount string, paths []string) error {
	n, err := fs.Revert(e, mount, paths)
	if err != nil {
		return err
	}
	e.result("reverted %s", count(n, "change"))
	return nil
}
