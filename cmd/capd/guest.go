package main

import (
	"cmp"
	"os"
	"strings"

	"capd/client"
	"capd/state"
	"capd/vfs"
)

// capFlag names the capability that a guest's command uses.
type capFlag struct {
	Cap string `env:"CAPD_CAP" placeholder:"LOCATOR" help:"The capability: a locator, or @FILE with one in it."`
}

// locator returns the given locator.
func (f capFlag) locator() (string, error) {
	text := f.Cap
	if name, ok := strings.CutPrefix(text, "@"); ok {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", vfs.Errorf(vfs.Invalid, "the file of --cap cannot be read: %v", state.Reason(err))
		}
		text = string(b)
	}
	if text = strings.TrimSpace(text); text == "" && f.Cap != "" {
		return "", vfs.Errorf(vfs.Invalid, "--cap is given, but has no locator; was the file written?")
	} else if text == "" {
		return "", usageError{"which capability? give a locator with --cap LOCATOR or --cap @FILE, or set CAPD_CAP"}
	}
	return text, nil
}

// dial connects to the host and restores what the locator stands for.
func (f capFlag) dial(e *env) (*client.Conn, vfs.Node, error) {
	text, err := f.locator()
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(e, text)
	if err != nil {
		return nil, nil, f.origin(err)
	}
	e.opened = append(e.opened, c)
	n, err := c.Node(e)
	if err != nil {
		return nil, nil, f.origin(err)
	}
	if d, ok := n.(*client.Dir); ok {
		n = inTurn(d)
	}
	return c, n, nil
}

// origin adds to the error of a locator that does not work that it came from the
// environment, where one may have forgotten it.
func (f capFlag) origin(err error) error {
	if f.Cap != os.Getenv("CAPD_CAP") {
		return err
	}
	return reworded(err, func(msg string) string {
		return cmp.Or(inWords(msg), "it does not work") + " (the locator is that of $CAPD_CAP)"
	})
}

// dir is dial for commands that need a directory.
func (f capFlag) dir(e *env) (*client.Dir, error) {
	_, n, err := f.dial(e)
	if err != nil {
		return nil, err
	}
	d, ok := n.(*client.Dir)
	if !ok {
		return nil, vfs.Errorf(vfs.NotDir, "this capability is a file; cat, stat, put, append and edit take it without a path")
	}
	return d, nil
}

// inTurn returns d for changes of the turn that the environment names.
func inTurn(d *client.Dir) *client.Dir {
	if turn := os.Getenv("CAPD_TURN"); turn != "" {
		return d.Turn(turn)
	}
	return d
}

// node is dial, and returns the node at path below it; "" is the capability itself.
func (f capFlag) node(e *env, path string, follow bool) (*client.Conn, vfs.Node, error) {
	c, n, err := f.dial(e)
	if err != nil || path == "" {
		return c, n, err
	}
	d, ok := n.(*client.Dir)
	if !ok {
		return nil, nil, vfs.At(path, vfs.Errorf(vfs.NotDir, "this capability is a file; leave the path out"))
	}
	n, err = d.Walk(e, path, follow)
	return c, n, err
}

// trimPath removes a trailing slash, which a shell's completion adds, and reads "."
// as the capability itself.
func trimPath(path string) string {
	if path == "." || path == "./" {
		return ""
	}
	for len(path) > 1 && strings.HasSuffix(path, "/") {
		path = path[:len(path)-1]
	}
	return path
}

// filePath checks the path of a file to write. It refuses one that ends in a slash,
// since that is a directory's.
func filePath(path string) (string, error) {
	if strings.HasSuffix(path, "/") && trimPath(path) != "" {
		return "", vfs.At(path, vfs.Errorf(vfs.Invalid, "a path that ends in a slash is a directory's; name a file"))
	}
	return trimPath(path), nil
}
