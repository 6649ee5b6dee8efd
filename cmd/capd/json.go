package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"capd/client"
	"capd/jsonfile"
	"capd/vfs"
)

type jsonCommand struct {
	Get jsonGetCommand `cmd:"" help:"Print a value."`
	Set jsonSetCommand `cmd:"" help:"Replace a value, or add one."`
	Rm  jsonRmCommand  `cmd:"" help:"Remove a member or an element."`
}

func (jsonCommand) Help() string {
	return `A pointer names a value (RFC 6901): "" is the whole document, and /a/0/b is the member b of the first
element of the member a. In a name, ~1 stands for / and ~0 for ~. The rest of the file stays as it is,
byte for byte. A file that is not JSON is refused, with the line and the column; comments are not JSON.

Examples:
  capd json get project/package.json /version
  capd json set project/package.json /scripts/test '"go test"'
  capd json rm project/package.json /devDependencies/left-pad`
}

// document is the file of a command, which is JSON.
type document struct {
	Path string `arg:"" help:"A file with JSON, at most 4 MiB (.: the capability itself)."`
	capFlag
}

// file returns the document, and what in errors names it.
func (d document) file(e *env) (*client.Conn, *client.File, string, error) {
	path := trimPath(d.Path)
	conn, n, err := d.node(e, path, true)
	if err != nil {
		return nil, nil, path, err
	}
	f, ok := n.(*client.File)
	if !ok {
		return nil, nil, path, vfs.At(path, vfs.IsDir)
	}
	return conn, f, path, nil
}

type jsonGetCommand struct {
	document
	Pointer string `arg:"" optional:"" help:"What to print (default: the whole document)."`
	Raw     bool   `short:"r" help:"Print the text of a string."`
}

func (jsonGetCommand) Help() string {
	return `Prints the value as it is written in the file, and a line end.

Examples:
  capd json get project/package.json /scripts
  capd json get project/package.json /scripts | jq keys
  capd json get --raw project/package.json /version`
}

func (c *jsonGetCommand) Run(e *env) error {
	_, f, path, err := c.file(e)
	if err != nil {
		return err
	}
	value, _, err := f.ReadJSON(e, c.Pointer)
	if err == nil && c.Raw {
		var text string
		text, err = jsonfile.Text(value)
		value = []byte(text)
	}
	if err != nil {
		return vfs.At(path, err)
	}
	_, err = fmt.Fprintf(e.stdout, "%s\n", value)
	return err
}

type jsonSetCommand struct {
	document
	Pointer   string  `arg:"" help:"Where: a value that is there, a member to add, or /list/- for the end of an array."`
	Value     string  `arg:"" help:"The value, in JSON, or - for standard input."`
	String    bool    `short:"s" help:"The value is text, and becomes a string."`
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
}

func (jsonSetCommand) Help() string {
	return `Prints the file's new version. A member that is added looks like those beside it, and the value is
written as it is given. What others change in the file meanwhile is not undone. After -- a value may
begin with a minus.

Examples:
  capd json set project/package.json /private true
  capd json set project/package.json /version --string 1.2.0
  capd json set project/package.json /keywords/- '"tool"'
  capd json set project/limits.json /offset -- -1
  jq -n '{node: ">=22"}' | capd json set project/package.json /engines -`
}

func (c *jsonSetCommand) Run(e *env) error {
	cond, err := condition{IfVersion: c.IfVersion}.read()
	if err != nil {
		return err
	}
	conn, f, path, err := c.file(e)
	if err != nil {
		return err
	}
	value, err := c.value(e, conn)
	if err != nil {
		return err
	}
	v, err := f.WriteJSON(e, c.Pointer, value, cond)
	if !c.String {
		err = reworded(err, func(msg string) string {
			if strings.HasPrefix(msg, "the value is not valid JSON") {
				msg += "; --string makes a text a string"
			}
			return msg
		})
	}
	return wrote(e, path, v, err)
}

// value returns what to set, in JSON.
func (c *jsonSetCommand) value(e *env, conn *client.Conn) ([]byte, error) {
	value := []byte(c.Value)
	if c.Value == "-" {
		var all bytes.Buffer
		if _, err := all.ReadFrom(io.LimitReader(interruptible(e, conn), jsonfile.MaxBytes+1)); err != nil {
			return nil, err
		}
		if value = all.Bytes(); len(value) > jsonfile.MaxBytes {
			return nil, vfs.Errorf(vfs.TooLarge, "standard input has more than %d bytes", jsonfile.MaxBytes)
		}
	}
	if !c.String {
		return value, nil
	}
	return jsonfile.Quote(string(value))
}

type jsonRmCommand struct {
	document
	Pointer   string  `arg:"" help:"A member or an element."`
	IfVersion *string `placeholder:"V" help:"Only if the file's version is this."`
}

func (jsonRmCommand) Help() string {
	return `Prints the file's new version.

Examples:
  capd json rm project/package.json /scripts/postinstall
  capd json rm project/package.json /files/0`
}

func (c *jsonRmCommand) Run(e *env) error {
	cond, err := condition{IfVersion: c.IfVersion}.read()
	if err != nil {
		return err
	}
	_, f, path, err := c.file(e)
	if err != nil {
		return err
	}
	v, err := f.RemoveJSON(e, c.Pointer, cond)
	return wrote(e, path, v, err)
}

// wrote prints the version v of the file at path, which a command has changed unless there is an error.
func wrote(e *env, path string, v vfs.Version, err error) error {
	if err != nil {
		return vfs.At(path, err)
	}
	e.result("%s", v)
	return nil
}
