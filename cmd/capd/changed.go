package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"capd/client"
	"capd/vfs"
)

type changedCommand struct {
	File string `arg:"" optional:"" help:"A list of versions and paths (default: standard input)."`
	JSON bool   `name:"json" help:"Print a JSON array of the paths that differ."`
	capFlag
}

func (changedCommand) Help() string {
	return `The list is what sha256sum prints, since a version is the sha256 of a content: a line for each file, with its version,
two spaces and its path. A - in place of a version stands for nothing: there was no file. capd stat prints versions, too.

Only paths that differ are printed: "changed" is another content, "gone" is no file any more, and another word
is why the host does not tell. The exit code is 1 if any path differs.

Examples:
  capd get project /tmp/copy && (cd /tmp/copy && find . -type f -exec sha256sum {} + | sed 's,\./,project/,') > known
  capd changed known
  echo "-  project/new.txt" | capd changed --json`
}

// changedJSON is a path that differs as --json prints it.
type changedJSON struct {
	Path    string `json:"path"`
	RawPath []byte `json:"rawPath,omitempty"`
	Version string `json:"version,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (c *changedCommand) Run(e *env) error {
	conn, n, err := c.dial(e)
	if err != nil {
		return err
	}
	d, ok := n.(*client.Dir)
	if !ok {
		return vfs.Errorf(vfs.NotDir, "this capability is a file; capd stat prints its version")
	}
	known, err := c.known(e, conn)
	if err != nil {
		return err
	}
	all := []changedJSON{}
	for differs, err := range d.ChangedSince(e, known) {
		if err != nil {
			return err
		}
		name := asName(differs.Path, vfs.FileKind)
		js := changedJSON{Path: name.Name, RawPath: name.RawName, Version: differs.Version.String()}
		if differs.Err != nil {
			js.Error = string(vfs.CodeOf(differs.Err))
		}
		all = append(all, js)
		if c.JSON {
			continue
		}
		word := "changed"
		switch vfs.CodeOf(differs.Err) {
		case "":
		case vfs.NotFound, vfs.NotDir, vfs.IsDir, vfs.NotRegular:
			word = "gone"
		default:
			word = js.Error
		}
		if _, err := fmt.Fprintf(e.stdout, "%s  %s\n", word, vfs.Printable(differs.Path)); err != nil {
			return err
		}
	}
	if c.JSON {
		if err := printJSON(e.stdout, all); err != nil {
			return err
		}
	}
	if len(all) > 0 {
		return exitError(exitRefused)
	}
	return nil
}

// known reads the list.
func (c *changedCommand) known(e *env, conn *client.Conn) ([]client.Known, error) {
	name, r := "standard input", io.Reader(nil)
	if c.File == "" || c.File == "-" {
		r = interruptible(e, conn)
	} else {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, unreadable(c.File, err)
		}
		defer f.Close()
		name, r = c.File, f
	}
	var known []client.Known
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		k, ok := knownLine(lines.Text())
		if !ok {
			return nil, localError{fmt.Sprintf("line %d of %s is not a version, two spaces and a path, as sha256sum prints them", n, vfs.Printable(name))}
		}
		known = append(known, k)
	}
	if err := lines.Err(); err != nil {
		return nil, unreadable(name, err)
	}
	return known, nil
}

// knownLine reads a line of sha256sum(1). A backslash before the version says that the path is
// escaped, and a * before the path that the file was read as binary.
func knownLine(line string) (k client.Known, ok bool) {
	line, escaped := strings.CutPrefix(line, `\`)
	version, path, ok := strings.Cut(line, " ")
	if !ok || len(path) < 2 || path[0] != ' ' && path[0] != '*' {
		return k, false
	}
	if k.Path = trimPath(path[1:]); escaped {
		k.Path = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r").Replace(k.Path)
	}
	if version != "-" {
		v, err := vfs.ParseVersion(version)
		if err != nil {
			return k, false
		}
		k.Version = v
	}
	return k, true
}
