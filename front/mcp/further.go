package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"capd/client"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/step"
)

var furtherTools = []tool{
	{
		name: "grep", title: "Search Contents", needs: client.Read | client.List,
		about: "Find lines that match an RE2 expression in a file or in everything below a directory, as path:line:text. What ignore files name and hidden files are left out unless asked for. " +
			"context shows lines around; show names or counts only; glob (\"*.go\", \"!vendor/**\") limits the files.",
		hints: reads,
		in: `"pattern":{"type":"string"},` + onePath + `,"ignoreCase":{"type":"boolean"},"words":{"type":"boolean"},"fixed":{"type":"boolean"},"glob":{"type":"array","items":{"type":"string"}},` +
			`"context":{"type":"number"},"show":{"type":"string","enum":["lines","names","counts"]},"hidden":{"type":"boolean"},"noIgnore":{"type":"boolean"},"limit":{"type":"number","description":"Matches at most (200)"}`,
		required: "pattern", out: `,"more":{"type":"boolean"}`, run: handler(grep),
	},
	{
		name: "read_lines", title: "Read Lines", needs: client.Read,
		about: "Read count lines from line number from on, or the last count. Long lines are cut. Answers where the next window begins.",
		hints: reads, in: onePath + `,"from":{"type":"number"},"count":{"type":"number","description":"At most 10000 (1000)"},"last":{"type":"boolean"}`, required: "path",
		out: versioned + `,"first":{"type":"number"},"next":{"type":"number"},"more":{"type":"boolean"},"lines":{"type":"number"}`, run: handler(readLines),
	},
	{
		name: "apply_patch", title: "Apply Patch", needs: client.Read | client.Write,
		about: "Change several files with a unified diff, or the format *** Begin Patch, all or none. Hunks are found by their lines; line numbers do not matter.",
		hints: changes, in: `"patch":{"type":"string"},"reverse":{"type":"boolean"},"dryRun":{"type":"boolean"}`, required: "patch",
		out: `,"files":{"type":"array","items":{"type":"object"}}`, run: handler(applyPatch),
	},
	{
		name: "changes", title: "Wait for Changes", needs: client.Watch,
		about: "What others and you changed below a directory since cursor; without one it begins now. Waits up to waitSeconds for something. rescan: look anew, something may have been missed.",
		hints: reads, in: onePath + `,"cursor":{"type":"string"},"waitSeconds":{"type":"number","description":"At most 50"},"others":{"type":"boolean","description":"Without your own"}`,
		out: `,"cursor":{"type":"string"},"rescan":{"type":"boolean"},"events":{"type":"array","items":{"type":"object"}}`, run: handler(whatChanged),
	},
	{
		name: "undo", title: "Undo", needs: client.Read | client.Write,
		about: "Take back one change (id, from history), the last ones, or a turn. Nothing is undone if somebody changed the same place since. An undo can be undone.",
		hints: changes, in: `"id":{"type":"number"},"last":{"type":"number","description":"So many (1)"},"turn":{"type":"string"},"dryRun":{"type":"boolean"}`,
		out: `,"id":{"type":"number"}`, run: handler(undo),
	},
	{
		name: "history", title: "History", about: "What you changed, the newest first, with ids for undo.", needs: client.Read,
		hints: reads, in: `"limit":{"type":"number","description":"Entries (20)"},"before":{"type":"number","description":"Older than this id"}`,
		out: `,"more":{"type":"boolean"}`, run: handler(history),
	},
	{
		name: "copy", title: "Copy", needs: client.Read | client.Write,
		about: "Copy a file, or a directory with everything in it, all or nothing. With replace a file that is there is replaced.",
		hints: changes, in: `"source":{"type":"string"},"destination":{"type":"string"},"replace":{"type":"boolean"},` + ifVersion, required: "source destination", run: handler(copyTo),
	},
	{
		name: "remove", title: "Remove", needs: client.Delete,
		about: "Remove a file, a link or an empty directory; with recursive a directory and everything in it. undo brings it back while history keeps it.",
		hints: changes, in: onePath + `,"recursive":{"type":"boolean"},` + ifVersion, required: "path", out: `,"turn":{"type":"string"}`, run: handler(remove),
	},
	{
		name: "attenuate", title: "Make a Narrower Capability",
		about: "Make a locator for somebody else, such as a sub-agent, for a directory or a file: with fewer rights, or for a time. It can never do more than you can, and ends with what you have. It is a secret.",
		hints: gives,
		in: onePath + `,"readOnly":{"type":"boolean"},"rights":{"type":"array","items":{"type":"string","enum":["read","write","delete","list","move","archive","watch","metadata","link"]}},` +
			`"expiresInSeconds":{"type":"number"}`,
		out: `,"locator":{"type":"string"},"id":{"type":"string"}`, run: handler(attenuate),
	},
}

func copyTo(ctx context.Context, s *service, a struct {
	Source, Destination, IfVersion string
	Replace                        bool
}) (answer, error) {
	from, to, c, err := s.ends(a.Source, a.Destination, a.IfVersion)
	if err != nil {
		return answer{}, err
	}
	done, err := s.dir.Copy(ctx, from, s.dir, to, c, vfs.If{Over: a.Replace})
	if err != nil {
		return answer{}, placed(err, from, to)
	}
	return said(fmt.Sprintf("Successfully copied %s to %s (%d entries, %d bytes)", a.Source, a.Destination, done.Entries, done.Bytes)), nil
}

func remove(ctx context.Context, s *service, a struct {
	Path, IfVersion string
	Recursive       bool
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	if s.roots.Top(at) {
		return answer{}, vfs.Errorf(vfs.Invalid, "an allowed directory itself is not removed; name something in it")
	}
	c, err := condition(a.IfVersion)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	err = s.dir.RemovePath(ctx, at, c)
	if vfs.CodeOf(err) != vfs.NotEmpty || !a.Recursive {
		if err != nil {
			return answer{}, vfs.At(at, err)
		}
		return said("Successfully removed " + a.Path), nil
	}
	return s.removeAll(ctx, at, a.Path)
}

// removeAll removes a directory with everything in it: all of it or nothing if it fits in one change, and as one turn in any case.
func (s *service) removeAll(ctx context.Context, at, sent string) (answer, error) {
	turn := "remove " + strconv.FormatInt(time.Now().UnixNano(), 36)
	d := s.dir.Turn(turn)
	defer d.Close()
	all := []step.Step{{Verb: step.Remove, Path: at}}
	sub := d.SubDir(at)
	defer sub.Close()
	for e, err := range sub.Glob(ctx, "**") {
		if err != nil {
			return answer{}, vfs.At(at, err)
		}
		all = append(all, step.Step{Verb: step.Remove, Path: vfs.Join(at, e.Name)})
	}
	slices.Reverse(all) // what a directory holds goes first
	removed := 0
	for some := range slices.Chunk(all, step.Max) {
		n, err := removeSome(ctx, d, some)
		removed += n
		if err != nil && removed > 0 {
			some := &vfs.Error{Code: vfs.CodeOf(err), Msg: fmt.Sprintf("%s; %d of %d were removed before, and undo with turn %q brings them back", vfs.Message(err), removed, len(all), turn)}
			if e, ok := errors.AsType[*vfs.Error](err); ok {
				some.Path = e.Path
			}
			err = some
		}
		if err != nil {
			return answer{}, err
		}
	}
	back := fmt.Sprintf("undo with turn %q brings it back", turn)
	if len(all) > step.Max {
		back = "history shows what undo can bring back of it"
	}
	return answer{text: fmt.Sprintf("Successfully removed %s (%d entries); %s", sent, len(all), back), fields: []field{{"turn", quoted(turn)}}}, nil
}

// removeSome removes what steps name, and returns how many it removed: all or none, or one after the other if they are not all of one mount.
func removeSome(ctx context.Context, d *client.Dir, steps []step.Step) (n int, err error) {
	if err = d.Change(ctx, steps, false); err == nil {
		return len(steps), nil
	}
	if vfs.CodeOf(err) != vfs.Unsupported {
		for _, one := range steps {
			err = placed(err, one.Path)
		}
		return 0, err
	}
	for i, one := range steps {
		if err := d.RemovePath(ctx, one.Path, vfs.If{}); err != nil && vfs.CodeOf(err) != vfs.NotFound {
			return i, vfs.At(one.Path, err)
		}
	}
	return len(steps), nil
}

// longest is for how long, in seconds, a locator can be made: a hundred years.
const longest = 100 * 365 * 24 * 3600

func attenuate(ctx context.Context, s *service, a struct {
	Path             string
	ReadOnly         bool
	Rights           []string
	ExpiresInSeconds *number
}) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	var lasts time.Duration
	if n := a.ExpiresInSeconds; n != nil {
		if *n < 1 || *n > longest {
			return answer{}, vfs.Errorf(vfs.Invalid, "expiresInSeconds is 1 to %d; leave it out for no end of its own", int64(longest))
		}
		lasts = time.Duration(float64(*n) * float64(time.Second))
	}
	keep := client.EveryRight
	if a.Rights != nil {
		if len(a.Rights) == 0 {
			return answer{}, vfs.Errorf(vfs.Invalid, "rights is empty; name some, or leave it out for all")
		}
		if keep, err = membrane.ParseRights(strings.Join(a.Rights, ",")); err != nil {
			return answer{}, err
		}
	}
	if a.ReadOnly {
		keep &^= membrane.ChangeRights
	}
	n, err := s.walk(ctx, at)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	defer n.Close()
	switch d := n.(type) {
	case *client.Dir:
		less := d.Narrow(keep)
		defer less.Close()
		n = less
	case *client.File:
		less := d.Narrow(keep)
		defer less.Close()
		n = less
	default:
		return answer{}, vfs.At(at, vfs.Errorf(vfs.NotRegular, "only a directory or a file can be given"))
	}
	id, loc, r, err := s.conn.ShareOn(ctx, n, client.ShareTerms{Expires: lasts})
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	r.Close()
	return answer{text: loc, fields: []field{{"locator", quoted(loc)}, {"id", quoted(id)}}}, nil
}

func (s *service) walk(ctx context.Context, at string) (vfs.Node, error) {
	if at == "" {
		return s.dir.Dup()
	}
	return s.dir.Walk(ctx, at, true)
}
