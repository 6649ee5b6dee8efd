package main

import (
	"errors"
	"fmt"

	"capd/database"
	"capd/record"
	"capd/vfs"
)

type auditCheckpointCommand struct{ stateFlag }

func (auditCheckpointCommand) Help() string {
	return `A checkpoint says how many entries the record has, and the hash of all of them, with a signature. Keep one
where whoever could change the state directory cannot write; capd audit verify --since then shows whether
the record still has what it had. The host remembers which were printed, so that this works also when the
entries were removed because of their age.

A host that runs signs what it has now. Otherwise it is the checkpoint that the last host made at its end.

Examples:
  capd audit checkpoint > /media/stick/monday`
}

func (c *auditCheckpointCommand) Run(e *env) error {
	text, err := c.checkpoint(e)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(e.stdout, text)
	return err
}

// checkpoint returns the newest checkpoint of the record. It is kept for ever from now on.
func (f stateFlag) checkpoint(e *env) (string, error) {
	if _, err := f.view(e); err != nil { // there is no state, or one of another version
		return "", err
	}
	st, err := f.open()
	if err != nil {
		return "", err
	}
	unlock, err := st.Lock()
	if vfs.CodeOf(err) == vfs.Busy { // a host runs
		con, err := f.console(e)
		if err != nil {
			return "", err
		}
		return con.Checkpoint(e)
	}
	if err != nil {
		return "", err
	}
	defer unlock()
	db, err := database.Open(st, database.Options{Logf: e.logf})
	if err != nil {
		return "", err
	}
	text, err := record.Give(db)
	return text, errors.Join(err, db.Close())
}

type auditExportCommand struct{ stateFlag }

func (auditExportCommand) Help() string {
	return `The first line says where the export begins. Then comes each entry, on a line of its own, as it lies in the
record: its hash is the SHA-256 of a zero byte and the line without its newline. The end is a checkpoint,
as capd audit checkpoint prints it. capd audit verify --export checks all of that, with --key also
without the state directory.

Examples:
  capd audit export > record.jsonl
  capd audit export | gzip > /media/stick/monday.gz`
}

func (c *auditExportCommand) Run(e *env) error {
	if err := e.stdout.open(); err != nil {
		return err
	}
	if _, err := c.checkpoint(e); err != nil && vfs.CodeOf(err) != vfs.Unsupported { // a host that records nothing has no newer one
		return err
	}
	view, err := c.view(e)
	if err != nil {
		return err
	}
	done, err := record.Export(e, view, e.stdout)
	if err == nil && done.Left > 0 {
		e.logf("capd: the last entries (%d) have no checkpoint yet and are not in the export; a host that starts makes one", done.Left)
	}
	return err
}
