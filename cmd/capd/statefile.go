package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"capd/database"
	"capd/vfs"
)

type stateCommand struct {
	Check  stateCheckCommand  `cmd:"" help:"Look for damage in what the host keeps."`
	Backup stateBackupCommand `cmd:"" help:"Copy what the host keeps to a file."`
	Export stateExportCommand `cmd:"" help:"Print what the host keeps, as JSON."`
}

func (stateCommand) Help() string {
	return `A host keeps its grants, its mounts and its record in the file state.db of its state directory. These
commands read that file. The host may run meanwhile, and need not.

Examples:
  capd state check
  capd state backup before-the-update.db`
}

type stateCheckCommand struct {
	JSON bool `name:"json" help:"Print a JSON object."`
	stateFlag
}

func (stateCheckCommand) Help() string {
	return `Reads all of the file. Prints what is wrong with it, a line each, and ends with 1 if anything is.

Examples:
  capd state check
  capd state check --json | jq .problems`
}

func (c *stateCheckCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	r, err := database.Check(e, st)
	if err != nil {
		return err
	}
	if c.JSON {
		if r.Problems == nil {
			r.Problems = []string{}
		}
		if err := json.NewEncoder(e.stdout).Encode(r); err != nil {
			return err
		}
	}
	if len(r.Problems) == 0 {
		if !c.JSON {
			e.result("the state is sound (version %d)", r.Version)
		}
		return nil
	}
	if !c.JSON {
		for _, p := range r.Problems {
			fmt.Fprintln(e.stdout, vfs.Printable(p))
		}
	}
	return vfs.Errorf(vfs.Corrupt, "the state is damaged; end the host, and put a backup in the place of %s: capd state backup makes them", vfs.Printable(st.Database()))
}

type stateBackupCommand struct {
	File string `arg:"" help:"The new file."`
	stateFlag
}

func (stateBackupCommand) Help() string {
	return `The copy is of one moment, and only your own user can read it. To put it back, end the host, replace
state.db in the state directory with it, and remove state.db-wal and state.db-shm. Whatever was
revoked after the backup is then granted again.

Examples:
  capd state backup capd-state.db`
}

func (c *stateBackupCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	file, err := filepath.Abs(c.File)
	if err != nil {
		return err
	}
	if err := database.Backup(e, st, file); err != nil {
		return err
	}
	e.result("wrote %s", vfs.Printable(c.File))
	return nil
}

type stateExportCommand struct {
	stateFlag
}

func (stateExportCommand) Help() string {
	return `Prints each row of each table as a JSON object on a line, without the digests of secrets. Nothing reads
it back: see capd state backup.

Examples:
  capd state export | jq -c 'select(.table == "grants" and .ended == null) | {name, path}'`
}

func (c *stateExportCommand) Run(e *env) error {
	st, err := c.open()
	if err != nil {
		return err
	}
	return database.Export(e, st, e.stdout)
}
