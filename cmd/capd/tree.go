package main

import (
	"errors"
	"fmt"
	"strings"

	"capd/client"
	"capd/vfs"
)

type treeCommand struct {
	Path  string `arg:"" optional:"" help:"A directory (default: the capability itself)."`
	JSON  bool   `name:"json" help:"Print a JSON array of paths with their types."`
	Depth int    `placeholder:"N" help:"Show so many levels (default: all)."`
	Max   int    `default:"1000" help:"Show at most this many entries; at most 10,000."`
	Bytes int    `placeholder:"N" help:"Show names of at most this many bytes together."`
	Sizes bool   `short:"s" help:"Show the sizes of files."`
	leaveFlags
	capFlag
}

func (treeCommand) Help() string {
	return `The tree is shown level by level until --max entries are reached. What is missing is counted: "… 12 more" stands for
entries that are not shown, and "3 left out" for those that ignore files name (.gitignore, .ignore, .git/info/exclude) and for .git.

Links are shown and not followed. A directory that cannot be listed is named on standard error, and the exit code is 1.

Examples:
  capd tree project
  capd tree project --depth 2 --sizes
  capd tree project/docs --no-ignore --json`
}

// branchJSON is an entry of a tree as --json prints it.
type branchJSON struct {
	nameJSON
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	More      int   `json:"more,omitempty"`
	AtLeast   bool  `json:"atLeast,omitempty"`
	LeftOut   int   `json:"leftOut,omitempty"`
}

func (c *treeCommand) Run(e *env) error {
	d, err := c.dir(e)
	if err != nil {
		return err
	}
	path := trimPath(c.Path)
	all, err := d.Tree(e, path, client.TreeOptions{Depth: c.Depth, Entries: c.Max, MaxBytes: c.Bytes, Sizes: c.Sizes, Leave: c.leave()})
	var missed *client.Unlisted
	switch {
	case errors.As(err, &missed):
	case vfs.CodeOf(err) == vfs.NotDir:
		return vfs.At(c.Path, vfs.Errorf(vfs.NotDir, "tree shows a directory; see cat and stat"))
	case err != nil:
		return err
	}
	if c.JSON {
		err = printJSON(e.stdout, branchesJSON(all))
	} else {
		err = c.print(e, all)
	}
	if err == nil && missed != nil {
		err = below(path, missed)
	}
	return err
}

// branchesJSON returns branches with their paths; "." is the directory itself.
func branchesJSON(all []client.Branch) []branchJSON {
	out := make([]branchJSON, len(all))
	way := []string{""}
	for i, b := range all {
		name := "."
		if b.Depth > 0 {
			name = vfs.Join(way[b.Depth-1], b.Name)
			way = append(way[:b.Depth], name)
		}
		out[i] = branchJSON{asName(name, b.Kind), b.Size, b.More, b.AtLeast, b.Left}
	}
	return out
}

// print prints a line for each branch, and after a directory's entries one for those that are not shown.
func (c *treeCommand) print(e *env, all []client.Branch) error {
	p := newPainter(e.stdout)
	var open []client.Branch // the directories that are printed
	closeTo := func(depth int) {
		for len(open) > depth {
			last := open[len(open)-1]
			if rest := notShown(last); rest != "" {
				fmt.Fprintln(e.stdout, strings.Repeat("  ", len(open)-1)+rest)
			}
			open = open[:len(open)-1]
		}
	}
	for _, b := range all {
		closeTo(b.Depth)
		if b.Depth > 0 {
			line := strings.Repeat("  ", b.Depth-1) + p.label(b.Name, b.Info)
			if c.Sizes && b.Kind == vfs.FileKind {
				line += fmt.Sprintf("  %d", b.Size)
			}
			if _, err := fmt.Fprintln(e.stdout, line); err != nil {
				return err
			}
		}
		open = append(open, b)
	}
	closeTo(0)
	return nil
}

// notShown says how many entries of a directory are not shown.
func notShown(b client.Branch) string {
	var parts []string
	switch {
	case b.AtLeast && b.More == 0:
		parts = append(parts, "more, not counted")
	case b.AtLeast:
		parts = append(parts, fmt.Sprintf("more than %d more", b.More))
	case b.More > 0:
		parts = append(parts, fmt.Sprintf("%d more", b.More))
	}
	if b.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d left out", b.Left))
	}
	if len(parts) == 0 {
		return ""
	}
	return "… " + strings.Join(parts, ", ")
}

// below puts path in front of the paths in missed.
func below(path string, missed *client.Unlisted) error {
	for i, err := range missed.Errors {
		if ve, ok := errors.AsType[*vfs.Error](err); ok {
			missed.Errors[i] = vfs.At(vfs.Join(path, ve.Path), err)
		}
	}
	return missed
}
