package main

import (
	"fmt"
	"io"

	"capd/client"
	"capd/vfs"
	"capd/vfs/patch"
)

type patchCommand struct {
	Path    string `arg:"" optional:"" help:"The directory from which the patch names files (default: the capability itself)."`
	DryRun  bool   `short:"n" help:"Change nothing, and print what would come of it."`
	Reverse bool   `short:"R" help:"Take the patch back."`
	JSON    bool   `name:"json" help:"Print JSON."`
	capFlag
}

func (patchCommand) Help() string {
	return `Reads a patch from standard input: a unified diff, as git diff and diff -u write it, or what the tool
apply_patch takes. Changes all files that it names, or none. The lines of a hunk say where it belongs;
wrong line numbers and counts do not matter. What fits nowhere, or at several places, is refused with
the lines. Line endings and a missing final newline stay as they are in the file.

Prints a line for each file: A for one that was made, M changed, D removed, how many lines were added
and removed, and its path. With --dry-run it prints the difference after that.

Examples:
  git diff | capd patch project
  capd patch project --dry-run <fix.diff
  capd patch project --reverse <fix.diff`
}

func (c *patchCommand) Run(e *env) error {
	path := trimPath(c.Path)
	conn, n, err := c.node(e, path, true)
	if err != nil {
		return err
	}
	d, ok := n.(*client.Dir)
	if !ok {
		return vfs.At(path, vfs.NotDir)
	}
	text, err := io.ReadAll(io.LimitReader(interruptible(e, conn), patch.MaxBytes+1))
	if err != nil {
		return err
	}
	files, err := d.Patch(e, text, client.PatchOptions{Reverse: c.Reverse, DryRun: c.DryRun})
	if err != nil {
		return err
	}
	if !c.DryRun {
		e.done("%d files were patched", len(files))
	}
	if c.JSON {
		return printJSON(e.stdout, asPatched(files))
	}
	for _, f := range files {
		c.print(e, f)
	}
	return nil
}

// patched is what the command prints of one file as JSON.
type patched struct {
	patch.Result
	Version string `json:"version,omitempty"`
	Was     string `json:"was,omitempty"`
}

func asPatched(files []patch.Result) []patched {
	all := make([]patched, len(files))
	for i, f := range files {
		all[i].Result = f
		if !f.Version.IsZero() {
			all[i].Version = f.Version.String()
		}
		if !f.Was.IsZero() {
			all[i].Was = f.Was.String()
		}
	}
	return all
}

func (c *patchCommand) print(e *env, f patch.Result) {
	letter := "M"
	switch {
	case f.Was.IsZero():
		letter = "A"
	case f.Version.IsZero():
		letter = "D"
	}
	added, removed := patch.Stat(f.Diff)
	from := ""
	if f.From != "" {
		from = " (from " + vfs.Printable(f.From) + ")"
	}
	fmt.Fprintf(e.stdout, "%s  +%d -%d  %s%s\n", letter, added, removed, vfs.Printable(f.Path), from)
	if c.DryRun {
		fmt.Fprint(e.stdout, f.Diff)
	}
}
