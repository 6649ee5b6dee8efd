package mcp

import (
	"context"
	"path"
	"strings"

	"capd/client"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

var writeTools = []tool{
	{
		name: "write_file", title: "Write File", needs: client.Write,
		about: "Make content the whole content of a file, which is made if it is missing; its directory must exist. Readers see the old content or the new. To change a part use edit_file.",
		hints: puts, in: onePath + `,"content":{"type":"string"},` + ifVersion, required: "path content", out: versioned, run: handler(writeFile),
	},
	{
		name: "edit_file", title: "Edit File", needs: client.Read | client.Write,
		about: "Replace texts in a file, all or none, and show the difference. Each oldText must match exactly once, or with replaceAll at least once. Nothing else in the file changes, nor its line endings.",
		hints: changes,
		in: onePath + `,"edits":{"type":"array","items":{"type":"object","properties":{"oldText":{"type":"string","description":"Text to search for - must match exactly"},` +
			`"newText":{"type":"string","description":"Text to replace with"},"replaceAll":{"type":"boolean"}},"required":["oldText","newText"]}},` +
			`"dryRun":{"default":false,"description":"Preview changes using git-style diff format","type":"boolean"},` + ifVersion,
		required: "path edits", out: versioned, run: handler(editFile),
	},
	{
		name: "create_directory", title: "Create Directory", about: "Make a directory, and those above it that are missing. One that is there is left alone.",
		needs: client.Write, hints: makes, in: onePath, required: "path", run: handler(createDirectory),
	},
}

var moveTool = tool{
	name: "move_file", title: "Move File", needs: client.Move,
	about: "Move or rename a file or a directory. Nothing is replaced: it fails if something is at the destination.",
	hints: changes, in: `"source":{"type":"string"},"destination":{"type":"string"},` + ifVersion, required: "source destination", run: handler(moveFile),
}

func writeFile(ctx context.Context, s *service, a struct{ Path, Content, IfVersion string }) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	c, err := condition(a.IfVersion)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	v, err := s.dir.Put(ctx, at, strings.NewReader(a.Content), c)
	if vfs.CodeOf(err) == vfs.NotFound {
		if _, lost := s.dir.WalkStat(ctx, path.Dir(at), true); vfs.CodeOf(lost) == vfs.NotFound {
			err = vfs.Errorf(vfs.NotFound, "its directory is not there; make that with create_directory")
		}
	}
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	return said("Successfully wrote to " + a.Path).with(v), nil
}

type editArgs struct {
	Path  string
	Edits []struct {
		OldText, NewText *string
		ReplaceAll       bool
	}
	DryRun    bool
	IfVersion string
}

func editFile(ctx context.Context, s *service, a editArgs) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	r := editing.Request{Dry: a.DryRun}
	if r.If, err = condition(a.IfVersion); err != nil {
		return answer{}, vfs.At(at, err)
	}
	for i, e := range a.Edits {
		if e.OldText == nil || e.NewText == nil { // to leave the new text out is no wish to remove the old one
			return answer{}, vfs.At(at, vfs.Errorf(vfs.Invalid, "edit %d needs both oldText and newText; newText is empty to remove the text", i+1))
		}
		r.Edits = append(r.Edits, edit.Edit{Old: []byte(*e.OldText), New: []byte(*e.NewText), All: e.ReplaceAll})
	}
	f := s.dir.OpenFile(at)
	defer f.Close()
	made, err := f.Edit(ctx, r)
	if err != nil {
		return answer{}, vfs.At(at, err)
	}
	text := fenced(string(made.Diff))
	if made.Cut {
		text += "The difference is not shown whole.\n"
	}
	a2 := said(text)
	if !a.DryRun {
		a2 = a2.with(made.Version)
	}
	return a2, nil
}

// fenced returns a difference between backticks, of which there are more than in it.
func fenced(diff string) string {
	longest, run := 2, 0
	for i := range len(diff) {
		if run++; diff[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	if diff != "" && !strings.HasSuffix(diff, "\n") {
		diff += "\n"
	}
	return fence + "diff\n" + diff + fence + "\n\n"
}

func createDirectory(ctx context.Context, s *service, a pathArgs) (answer, error) {
	at, err := s.roots.In(a.Path)
	if err != nil {
		return answer{}, err
	}
	if err := s.makeAll(ctx, at); err != nil {
		return answer{}, err
	}
	return said("Successfully created directory " + a.Path), nil
}

// makeAll makes the directory at path, and those above it.
func (s *service) makeAll(ctx context.Context, at string) error {
	if at == "" {
		return nil
	}
	d, err := s.dir.CreateDir(ctx, at)
	switch vfs.CodeOf(err) {
	case "":
		return d.Close()
	case vfs.Exists, vfs.ReadOnly: // where only mounts are nothing can be made, and something may be there
		info, late := s.dir.WalkStat(ctx, at, true)
		switch {
		case late == nil && info.Kind == vfs.DirKind:
			return nil
		case late == nil && vfs.CodeOf(err) == vfs.Exists:
			return vfs.At(at, vfs.Errorf(vfs.Exists, "it is there, and no directory"))
		}
	case vfs.NotFound:
		if up := strings.LastIndexByte(at, '/'); up > 0 {
			if err := s.makeAll(ctx, at[:up]); err != nil {
				return err
			}
			d, err = s.dir.CreateDir(ctx, at)
			if err == nil {
				return d.Close()
			}
			if vfs.CodeOf(err) == vfs.Exists { // somebody else was faster
				return nil
			}
		}
	}
	return vfs.At(at, err)
}

func moveFile(ctx context.Context, s *service, a struct{ Source, Destination, IfVersion string }) (answer, error) {
	from, to, c, err := s.ends(a.Source, a.Destination, a.IfVersion)
	if err == nil {
		err = s.dir.Move(ctx, from, s.dir, to, c, vfs.If{})
	}
	if vfs.CodeOf(err) == vfs.Exists {
		err = vfs.At(to, vfs.Errorf(vfs.Exists, "Destination already exists; remove it first, or choose another"))
	}
	if err != nil {
		return answer{}, placed(err, from, to)
	}
	return said("Successfully moved " + a.Source + " to " + a.Destination), nil
}

// ends reads the paths of a move or a copy.
func (s *service) ends(source, destination, version string) (from, to string, c vfs.If, err error) {
	if from, err = s.roots.In(source); err == nil {
		to, err = s.roots.In(destination)
	}
	if err == nil && (s.roots.Top(from) || s.roots.Top(to)) {
		err = vfs.Errorf(vfs.Invalid, "an allowed directory itself is not moved, copied or replaced; name something in it")
	}
	if err == nil {
		c, err = condition(version)
	}
	return from, to, c, err
}
