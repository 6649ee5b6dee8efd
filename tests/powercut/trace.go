package powercut

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// call is a system call that succeeded.
type call struct {
	name  string
	args  []string
	ret   int64
	begun int // how many calls had ended before it began
}

// play applies the trace of a program to the model.
func (r *Record) play(trace []byte) error {
	type started struct {
		text  string
		begun int
	}
	pending := map[string]started{}
	lines := bufio.NewScanner(bytes.NewReader(trace))
	lines.Buffer(nil, len(trace)+1)
	for lines.Scan() {
		pid, text, _ := strings.Cut(lines.Text(), " ")
		text = strings.TrimLeft(text, " ")
		begun := len(r.calls)
		if head, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			pending[pid] = started{head, begun}
			continue
		}
		if strings.HasPrefix(text, "<... ") {
			_, rest, _ := strings.Cut(text, " resumed>")
			text, begun = pending[pid].text+rest, pending[pid].begun
			delete(pending, pid)
		}
		c, ok, err := parse(text)
		if c.begun = begun; ok {
			err = r.do(c)
		}
		if err != nil {
			return fmt.Errorf("%w, in %.300s", err, readable(text))
		}
	}
	return lines.Err()
}

// parse parses a line of strace. It reports false if the call failed, or if the
// line is no call.
func parse(line string) (call, bool, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndex(line, " = ")
	if open < 0 || end < open {
		return call{}, false, nil
	}
	ret := line[end+3:]
	if i := strings.IndexAny(ret, "< "); i >= 0 {
		ret = ret[:i]
	}
	n, err := strconv.ParseInt(ret, 10, 64)
	if err != nil || n < 0 {
		return call{}, false, nil
	}
	c := call{name: line[:open], ret: n}
	inside := strings.TrimSuffix(strings.TrimRight(line[open+1:end], " "), ")")
	depth, from := 0, 0
	for i := range len(inside) {
		switch inside[i] {
		case '{', '[', '<':
			depth++
		case '}', ']', '>':
			depth--
		case ',':
			if depth == 0 {
				c.args = append(c.args, strings.TrimSpace(inside[from:i]))
				from = i + 1
			}
		}
	}
	c.args = append(c.args, strings.TrimSpace(inside[from:]))
	if strings.Contains(inside, `"...`) {
		return c, false, fmt.Errorf("strace left out a part of a string")
	}
	return c, true, nil
}

var escapes = regexp.MustCompile(`(\\x[0-9a-f]{2})+`)

// readable returns text without its escapes.
func readable(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(s string) string {
		b, _ := hex.DecodeString(strings.ReplaceAll(s, `\x`, ""))
		return string(b)
	})
}

// text returns a string argument.
func (c call) text(i int) string { return readable(strings.Trim(c.args[i], `"`)) }

func (c call) number(i int) (int64, error) { return strconv.ParseInt(c.args[i], 0, 64) }

func (c call) mode(i int) fs.FileMode {
	n, _ := strconv.ParseUint(c.args[i], 8, 32)
	return fs.FileMode(n) & fs.ModePerm
}

// file returns the path of a descriptor at the time of the call.
func (c call) file(i int) string {
	_, path, _ := strings.Cut(c.args[i], "<")
	return readable(strings.TrimSuffix(strings.TrimSuffix(path, "(deleted)"), ">"))
}

// path joins the path of a directory's descriptor with a path.
func (c call) path(fd, name int) string {
	if text := c.text(name); filepath.IsAbs(text) || fd < 0 {
		return filepath.Clean(text)
	}
	return filepath.Join(c.file(fd), c.text(name))
}

// find returns the directory that contains path and the last name of path. It
// reports false if path is not below r's directory.
func (r *Record) find(path string) (dir *inode, name string, ok bool, err error) {
	rel, err := filepath.Rel(r.dir, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return nil, "", false, nil
	}
	dir = r.root
	names := strings.Split(rel, "/")
	for _, n := range names[:len(names)-1] {
		if dir = dir.now[n]; dir == nil || dir.kind != fs.ModeDir {
			return nil, "", false, fmt.Errorf("the model has no directory on the way to %s", rel)
		}
	}
	return dir, names[len(names)-1], true, nil
}

// node returns the inode at path. It returns nil if path is not below r's
// directory, or has no name any more.
func (r *Record) node(path string) (*inode, error) {
	if path == r.dir {
		return r.root, nil
	}
	dir, name, ok, err := r.find(path)
	if !ok || err != nil {
		return nil, nil
	}
	return dir.now[name], nil
}

// did records a call that changed something, and returns its index.
func (r *Record) did(c call, paths ...string) int {
	for i, path := range paths {
		if rel, err := filepath.Rel(r.dir, path); err == nil {
			paths[i] = rel
		}
	}
	r.calls = append(r.calls, c.name+" "+strings.Join(paths, " "))
	return len(r.calls) - 1
}

// do applies one call.
func (r *Record) do(c call) error {
	switch c.name {
	case "open", "creat":
		return r.open(c, c.path(-1, 0), c.args[1], c.args[len(c.args)-1])
	case "openat":
		return r.open(c, c.path(0, 1), c.args[2], c.args[len(c.args)-1])
	case "openat2":
		if strings.Contains(c.args[2], "O_CREAT") || strings.Contains(c.args[2], "O_TRUNC") {
			return fmt.Errorf("the model opens nothing new by openat2")
		}
		return nil
	case "mkdir":
		return r.make(c, c.path(-1, 0), &inode{kind: fs.ModeDir, mode: c.mode(1) &^ umask, now: map[string]*inode{}})
	case "mkdirat":
		return r.make(c, c.path(0, 1), &inode{kind: fs.ModeDir, mode: c.mode(2) &^ umask, now: map[string]*inode{}})
	case "symlink":
		return r.make(c, c.path(-1, 1), &inode{kind: fs.ModeSymlink, mode: fs.ModePerm, target: c.text(0)})
	case "symlinkat":
		return r.make(c, c.path(1, 2), &inode{kind: fs.ModeSymlink, mode: fs.ModePerm, target: c.text(0)})
	case "link":
		return r.link(c, c.path(-1, 0), c.path(-1, 1))
	case "linkat":
		return r.link(c, c.path(0, 1), c.path(2, 3))
	case "unlink", "rmdir":
		return r.unlink(c, c.path(-1, 0))
	case "unlinkat":
		return r.unlink(c, c.path(0, 1))
	case "rename":
		return r.rename(c, c.path(-1, 0), c.path(-1, 1), "")
	case "renameat":
		return r.rename(c, c.path(0, 1), c.path(2, 3), "")
	case "renameat2":
		return r.rename(c, c.path(0, 1), c.path(2, 3), c.args[4])
	}
	return r.change(c)
}

// change applies a call on an open file, or on a file by its path.
func (r *Record) change(c call) error {
	switch c.name {
	case "write":
		return r.write(c)
	case "pwrite64":
		off, err := c.number(3)
		if err != nil {
			return err
		}
		return r.add(c, c.file(0), &part{off: off, data: []byte(c.text(1))[:c.ret]})
	case "ftruncate":
		size, err := c.number(1)
		if err != nil {
			return err
		}
		return r.add(c, c.file(0), &part{cut: true, off: size})
	case "fchmod":
		return r.add(c, c.file(0), &part{chmod: true, mode: c.mode(1)})
	case "chmod":
		return r.add(c, c.path(-1, 0), &part{chmod: true, mode: c.mode(1)})
	case "fchmodat":
		return r.add(c, c.path(0, 1), &part{chmod: true, mode: c.mode(2)})
	case "fsync", "fdatasync":
		n, err := r.node(c.file(0))
		if n != nil && err == nil {
			n.sync(c.begun, r.did(c, c.file(0)))
		}
		return err
	case "sync", "syncfs":
		done := r.did(c)
		r.root.all(func(n *inode) { n.sync(c.begun, done) })
		return nil
	}
	for i := range c.args { // what the model does not know must be elsewhere
		if path := c.file(i); path != "" && (path == r.dir || strings.HasPrefix(path, r.dir+"/")) {
			return fmt.Errorf("the model does not know %s", c.name)
		}
	}
	return nil
}

func (r *Record) open(c call, path, flags, mode string) error {
	dir, name, ok, err := r.find(path)
	if !ok || err != nil || !strings.Contains(flags, "O_CREAT") && !strings.Contains(flags, "O_TRUNC") {
		return nil
	}
	if there := dir.now[name]; there != nil {
		if strings.Contains(flags, "O_TRUNC") {
			return r.add(c, path, &part{cut: true})
		}
		return nil
	}
	perm, err := strconv.ParseUint(mode, 8, 32)
	if err != nil {
		return err
	}
	return r.make(c, path, &inode{mode: fs.FileMode(perm) & fs.ModePerm &^ umask})
}

func (r *Record) make(c call, path string, n *inode) error {
	dir, name, ok, err := r.find(path)
	if ok && err == nil {
		dir.name(r.did(c, path), name, n)
	}
	return err
}

func (r *Record) link(c call, from, to string) error {
	n, err := r.node(from)
	if n == nil || err != nil {
		return err
	}
	return r.make(c, to, n)
}

func (r *Record) unlink(c call, path string) error {
	dir, name, ok, err := r.find(path)
	if ok && err == nil {
		dir.name(r.did(c, path), name, nil)
	}
	return err
}

// rename records a rename: the old name goes only together with the new one.
func (r *Record) rename(c call, from, to, flags string) error {
	dir, name, ok, err := r.find(from)
	if !ok || err != nil {
		return err
	}
	into, newName, ok, err := r.find(to)
	if !ok || err != nil {
		return err
	}
	moved, over := dir.now[name], into.now[newName]
	at := r.did(c, from, to)
	if !strings.Contains(flags, "RENAME_EXCHANGE") {
		gone := dir.name(at, name, nil)
		gone.with = into.name(at, newName, moved)
		return nil
	}
	a, b := dir.name(at, name, over), into.name(at, newName, moved)
	a.with, b.with = b, a
	return nil
}

// add changes the file at path.
func (r *Record) add(c call, path string, p *part) error {
	n, err := r.node(path)
	if n == nil || err != nil {
		return err
	}
	if n.kind == fs.ModeDir { // a directory's mode counts as if it had been created with it
		n.mode = p.mode
		return nil
	}
	p.at = r.did(c, path)
	n.add(p)
	return nil
}

// write appends at the end of what was written so far. That is right for files
// that are written from their start, or appended to. Output to standard output is
// recorded as printed.
func (r *Record) write(c call) error {
	fd, _, _ := strings.Cut(c.args[0], "<")
	data := c.text(1)[:c.ret]
	n, err := r.node(c.file(0))
	switch {
	case err != nil:
		return err
	case n != nil:
		_, now := cut{len(r.calls), func(*part) keeping { return kept }}.content(n)
		return r.add(c, c.file(0), &part{off: int64(len(now)), data: []byte(data)})
	case fd == "1":
		r.said[len(r.calls)] += data
	}
	return nil
}

// umask is this process's umask, which the program inherits.
var umask = func() fs.FileMode {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "\nUmask:")
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.ParseUint(strings.TrimSpace(line), 8, 32)
	return fs.FileMode(n)
}()
