package vfstest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"capd/vfs"
)

// world is the store of one rule, with helpers to check it.
type world struct {
	*testing.T
	s    Store
	can  abilities
	ctx  context.Context
	root vfs.Dir
}

// sample has one node of every kind.
var sample = Tree{
	"f":       {Data: "the old content"},
	"empty":   {},
	"x":       {Data: "#!/bin/sh\n", Exec: true},
	"d/g":     {Data: "below"},
	"d/e/h":   {Data: "further below"},
	"hollow":  {Dir: true},
	"l":       {Link: "f"},
	"up":      {Link: "../outside"},
	"nowhere": {Link: "missing"},
}

// make makes the store, without links if it has none.
func (w *world) make(tree Tree) *world {
	w.Helper()
	if w.s.NoLinks {
		less := Tree{}
		for path, n := range tree {
			if n.Link == "" {
				less[path] = n
			}
		}
		tree = less
	}
	w.root = w.s.New(w.T, tree)
	return w
}

// with returns w with another context.
func (w *world) with(ctx context.Context) *world {
	other := *w
	other.ctx = ctx
	return &other
}

// at returns the node at a slash-separated path; "" is the root. It follows no link.
func (w *world) at(path string) vfs.Node {
	w.Helper()
	var n vfs.Node = w.root
	if path == "" {
		return n
	}
	for i, name := range strings.Split(path, "/") {
		d, ok := n.(vfs.Dir)
		if !ok {
			w.Fatalf("%s: on the way is a %T, not a directory", path, n)
		}
		next, err := d.Lookup(w.ctx, name)
		if err != nil {
			w.Fatalf("Lookup on the way to %s: %v", path, err)
		}
		if i > 0 {
			n.Close() // does not affect the node that was found
		}
		n = next
	}
	w.Cleanup(func() { n.Close() })
	return n
}

func (w *world) dir(path string) vfs.Dir {
	w.Helper()
	d, ok := w.at(path).(vfs.Dir)
	if !ok {
		w.Fatalf("%s is not a Dir", path)
	}
	return d
}

func (w *world) file(path string) vfs.File {
	w.Helper()
	f, ok := w.at(path).(vfs.File)
	if !ok {
		w.Fatalf("%s is not a File", path)
	}
	return f
}

func (w *world) link(path string) vfs.Link {
	w.Helper()
	l, ok := w.at(path).(vfs.Link)
	if !ok {
		w.Fatalf("%s is not a Link", path)
	}
	return l
}

// put replaces the whole file at a name of the root.
func (w *world) put(name, data string) vfs.Version {
	w.Helper()
	v, err := w.root.Replace(w.ctx, name, strings.NewReader(data), vfs.If{})
	w.ok("Replace "+name, err)
	return v
}

// has checks that the file at path has this content, with every way of reading it.
func (w *world) has(path, data string) {
	w.Helper()
	w.reads(w.file(path), data)
}

func (w *world) reads(f vfs.File, data string) {
	w.Helper()
	info, err := f.Stat(w.ctx)
	w.ok("Stat", err)
	if info.Size != int64(len(data)) {
		w.Errorf("Stat says %d bytes, want %d", info.Size, len(data))
	}
	got, err := readAll(w.ctx, f)
	w.ok("reading", err)
	if got != data {
		w.Errorf("content is %s, want %s", short(got), short(data))
	}
	v, err := vfs.VersionOf(w.ctx, f)
	w.ok("VersionOf", err)
	if v != sum(data) {
		w.Errorf("VersionOf is not the sha256 of the content")
	}
}

// readAll reads all of f's content.
func readAll(ctx context.Context, f vfs.File) (string, error) {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	return string(b), err
}

func sum(data string) vfs.Version { return sha256.Sum256([]byte(data)) }

func short(s string) string {
	if len(s) > 40 {
		return fmt.Sprintf("%q… (%d bytes)", s[:40], len(s))
	}
	return fmt.Sprintf("%q", s)
}

// ok fails the test at once when err is not nil.
func (w *world) ok(what string, err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// is checks that err has one of these codes and may be shown to a guest.
func (w *world) is(what string, err error, codes ...vfs.Code) {
	w.Helper()
	switch code := vfs.CodeOf(err); {
	case err == nil:
		w.Errorf("%s: no error, want %v", what, codes)
	case !slices.Contains(codes, code):
		w.Errorf("%s: %q (%v), want %v", what, code, err, codes)
	default:
		w.fit(what, err)
	}
}

// absolute matches what looks like a path of the host.
var absolute = regexp.MustCompile(`(^|[\s"'(=:])/[A-Za-z0-9._-]+`)

// fit checks that err may be shown to a guest: it has a code of the set, other than
// internal, and names no host path. The error of an ended context has no code.
func (w *world) fit(what string, err error) {
	w.Helper()
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if code := vfs.CodeOf(err); code == vfs.Internal || !slices.Contains(vfs.Codes, code) {
		w.Errorf("%s: an error without a proper code: %v (cause: %v)", what, err, errors.Unwrap(err))
	}
	text := err.Error()
	for _, name := range badNames { // the caller's own words may come back
		if len(name) > 1 && name[0] == '/' {
			text = strings.ReplaceAll(text, name, "")
		}
	}
	if found := absolute.FindString(text); found != "" {
		w.Errorf("%s: an error names %q: %v", what, found, err)
	}
}
