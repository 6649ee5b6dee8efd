package main

import (
	"crypto/ed25519"
	"fmt"
	"os"

	"capd/record"
	"capd/vfs"
)

type auditVerifyCommand struct {
	Since  string `placeholder:"FILE" help:"A checkpoint that was kept elsewhere: the record must have it, and go on from there."`
	Export string `placeholder:"FILE" help:"Check what capd audit export has printed, in place of the record; - is the standard input."`
	Key    string `placeholder:"LINE" help:"The public key, as capd audit key printed it (default: that of the state directory)."`
	JSON   bool   `name:"json" help:"Print a JSON object."`
	stateFlag
}

func (auditVerifyCommand) Help() string {
	return `Reads the whole record, and finds entries that were removed, changed or put elsewhere, and an end that was
cut off. The exit code is 1 if it finds anything.

Whoever owns the state directory has the key too, and can write another record. Only a checkpoint that was
kept elsewhere shows that, or that an old state was put back: pass it with --since.

Examples:
  capd audit verify
  capd audit checkpoint > /media/stick/monday
  capd audit verify --since /media/stick/monday
  capd audit verify --export record.jsonl --key "$(cat record.pub)"`
}

func (c *auditVerifyCommand) Run(e *env) error {
	o := record.VerifyOptions{Key: c.Key}
	if c.Since != "" {
		text, err := os.ReadFile(c.Since)
		if err != nil {
			return unreadable(c.Since, err)
		}
		o.Since = string(text)
	}
	if o.Key == "" {
		line, err := c.keyLine()
		if err != nil {
			return err
		}
		o.Key = line
	}
	r, err := c.verify(e, o)
	if err != nil {
		return err
	}
	if c.JSON {
		err = printJSON(e.stdout, r)
	} else {
		c.say(e, &r)
	}
	if err == nil && len(r.Problems) > 0 {
		return vfs.Errorf(vfs.Corrupt, "the record is not as it was written")
	}
	return err
}

// verify checks the record, or an export of it.
func (c *auditVerifyCommand) verify(e *env, o record.VerifyOptions) (record.Report, error) {
	switch c.Export {
	case "":
		view, err := c.view(e)
		if err != nil {
			return record.Report{}, err
		}
		return record.Verify(e, view, o)
	case "-":
		return record.VerifyExport(e, e.stdin, o)
	}
	f, err := os.Open(c.Export)
	if err != nil {
		return record.Report{}, unreadable(c.Export, err)
	}
	defer f.Close()
	return record.VerifyExport(e, f, o)
}

func (c *auditVerifyCommand) say(e *env, r *record.Report) {
	p := newPainter(e.stdout)
	for _, problem := range r.Problems {
		fmt.Fprintln(e.stdout, p.bad(problem))
	}
	fmt.Fprintf(e.stdout, "%d entries and %s; the newest covers those before c%d\n", r.Entries, count(r.Checkpoints, "checkpoint"), r.Signed)
	if len(r.Problems) > 0 {
		return
	}
	if r.First > 0 {
		fmt.Fprintf(e.stdout, "the first is c%d; the host has removed those before it because of their age or size\n", r.First)
	}
	fmt.Fprintln(e.stdout, p.good("nothing is missing, and nothing was changed"))
	if c.Export != "" && c.Key == "" {
		fmt.Fprintln(e.stdout, p.faint("The signatures were checked with the key of the state directory; --key names another"))
	}
	if c.Since == "" {
		fmt.Fprintln(e.stdout, p.faint("That the owner of the state has not written another record, only a checkpoint kept elsewhere shows: --since FILE"))
	}
}

// keyLine returns the public key of the record.
func (f stateFlag) keyLine() (string, error) {
	st, err := f.open()
	if err != nil {
		return "", err
	}
	key, err := st.ReadRecordKey()
	if err != nil {
		return "", err
	}
	return record.Verifier(key.Public().(ed25519.PublicKey))
}

type auditKeyCommand struct{ stateFlag }

func (auditKeyCommand) Help() string {
	return `Whoever has this line can check the signatures of checkpoints, also with other programs: it is a key of
https://c2sp.org/signed-note.

Examples:
  capd audit key > record.pub`
}

func (c *auditKeyCommand) Run(e *env) error {
	line, err := c.keyLine()
	if err != nil {
		return err
	}
	e.result("%s", line)
	return nil
}
