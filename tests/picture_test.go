package tests

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// secret is what no guest may read.
const secret = "CANARY-5f1c09e2"

// canary makes a tree that no guest may see or change.
func (p *place) canary(dir string) {
	p.Helper()
	ok(p, os.MkdirAll(filepath.Join(dir, "deep"), 0o755))
	ok(p, os.WriteFile(filepath.Join(dir, "f"), []byte(secret+" f"), 0o640))
	ok(p, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n# "+secret+"\n"), 0o750))
	ok(p, os.WriteFile(filepath.Join(dir, "deep", "f"), []byte(secret+" deep"), 0o600))
}

// picture describes a tree: for each path mode, time and content.
type picture map[string]string

// take takes a picture of what is below dir. What disappears meanwhile is left
// out.
func take(t testing.TB, dir string) picture {
	t.Helper()
	p := picture{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".capd-") {
			return fs.SkipDir
		}
		info, err := os.Lstat(path)
		if err != nil {
			return nil
		}
		what := fmt.Sprint(info.Mode(), " ", info.ModTime().UnixNano())
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			what += fmt.Sprintf(" %d %x %v", len(b), sha256.Sum256(b), err)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			what += " -> " + to
		}
		p[rel] = what
		return nil
	})
	ok(t, err)
	return p
}

// differs describes the differences of two pictures, "" for none.
func (p picture) differs(q picture) string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(p)) {
		if q[path] == "" {
			out = append(out, path+" is gone")
		} else if p[path] != q[path] {
			out = append(out, fmt.Sprintf("%s was %s and is %s", path, p[path], q[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(q)) {
		if p[path] == "" {
			out = append(out, path+" is new: "+q[path])
		}
	}
	return strings.Join(out, "; ")
}
