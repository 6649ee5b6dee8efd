package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"capd/cap/wire"
	"capd/client"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/step"
)

type stepsCommand struct {
	Path   string `arg:"" optional:"" help:"The directory from which the steps name files (default: the capability itself)."`
	DryRun bool   `short:"n" help:"Change nothing, and say what would be wrong."`
	JSON   bool   `name:"json" help:"Print JSON: for each step the version that it leaves."`
	capFlag
}

func (stepsCommand) Help() string {
	return `Reads steps from standard input, as JSON, and makes them one after the other: all of them or none.
Each step is one of these, with "ifVersion" for a condition on what is there: a version, or "absent".

  {"put": PATH, "text": TEXT}            or "base64": BYTES
  {"edit": PATH, "edits": [{"old": TEXT, "new": TEXT, "all": true}]}
  {"remove": PATH}
  {"move": PATH, "to": PATH, "over": VERSION}
  {"mkdir": PATH}

Examples:
  capd change project <steps.json
  echo '[{"mkdir": "old"}, {"move": "a.md", "to": "old/a.md"}]' | capd change project`
}

// wantedJSON is a step as it is written.
type wantedJSON struct {
	Put, Edit, Remove, Move, Mkdir *string
	Text, To                       string
	Base64                         []byte
	Edits                          []struct {
		Old, New string
		All      bool
	}
	IfVersion, Over string
}

func (c *stepsCommand) Run(e *env) error {
	path := trimPath(c.Path)
	conn, n, err := c.node(e, path, true)
	if err != nil {
		return err
	}
	d, ok := n.(*client.Dir)
	if !ok {
		return vfs.At(path, vfs.NotDir)
	}
	text, err := io.ReadAll(io.LimitReader(interruptible(e, conn), 3*wire.MaxWhole))
	if err != nil {
		return err
	}
	steps, err := readSteps(text)
	if err != nil {
		return err
	}
	if err := d.Change(e, steps, c.DryRun); err != nil {
		return err
	}
	if !c.DryRun {
		e.done("%d steps were made", len(steps))
	}
	if !c.JSON {
		return nil
	}
	versions := make([]string, len(steps))
	for i, s := range steps {
		if !s.Left.IsZero() {
			versions[i] = s.Left.String()
		}
	}
	return printJSON(e.stdout, versions)
}

// readSteps reads a list of steps. It refuses a word that it does not know: to ignore a condition could overwrite something.
func readSteps(text []byte) ([]step.Step, error) {
	var all []wantedJSON
	from := json.NewDecoder(bytes.NewReader(text))
	from.DisallowUnknownFields()
	if err := from.Decode(&all); err != nil {
		if of, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, vfs.Errorf(vfs.Invalid, "the steps must be a list such as [{\"put\": \"a\", \"text\": \"hello\"}, {\"remove\": \"b\"}]; at byte %d is %s that does not belong there", of.Offset, of.Value)
		}
		return nil, vfs.Errorf(vfs.Invalid, "the steps are no such JSON: %v", err)
	}
	steps := make([]step.Step, len(all))
	for i := range all {
		var err error
		if steps[i], err = all[i].step(); err != nil {
			return nil, fmt.Errorf("step %d of %d: %w", i+1, len(all), err)
		}
	}
	return steps, nil
}

func (j *wantedJSON) step() (s step.Step, err error) {
	found := 0
	for verb, path := range map[step.Verb]*string{step.Put: j.Put, step.Edit: j.Edit, step.Remove: j.Remove, step.Move: j.Move, step.Mkdir: j.Mkdir} {
		if path != nil {
			found++
			s.Verb, s.Path = verb, *path
		}
	}
	if found != 1 {
		return s, vfs.Errorf(vfs.Invalid, "it has %d of put, edit, remove, move and mkdir, and needs one", found)
	}
	s.To, s.Data = j.To, j.Base64
	if j.Text != "" {
		s.Data = []byte(j.Text)
	}
	for _, e := range j.Edits {
		s.Edits = append(s.Edits, edit.Edit{Old: []byte(e.Old), New: []byte(e.New), All: e.All})
	}
	var late error
	switch j.IfVersion {
	case "":
	case "absent":
		s.If.Absent = true
	default:
		s.If.Is, err = vfs.ParseVersion(j.IfVersion)
	}
	if j.Over != "" {
		s.IfTarget.Is, late = vfs.ParseVersion(j.Over)
	}
	return s, errors.Join(err, late)
}
