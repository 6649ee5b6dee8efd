package batch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/diff"
	"capd/vfs/vfstest/check"
)

var ok = check.OK

// tree is what a store holds: paths to "dir", "link:" and a target, "file:" and a
// content, or "exec:" and the content of an executable file.
type tree map[string]string

func version(content string) vfs.Version { return sha256.Sum256([]byte(content)) }

func state(node string) diff.State {
	kind, data, _ := strings.Cut(node, ":")
	switch kind {
	case "dir":
		return diff.State{Kind: vfs.DirKind}
	case "link":
		return diff.State{Kind: vfs.LinkKind, Target: data}
	case "file", "exec":
		return diff.State{Kind: vfs.FileKind, Version: version(data), Exec: kind == "exec"}
	}
	return diff.State{}
}

func content(node string) func(context.Context) (io.ReadCloser, error) {
	_, data, _ := strings.Cut(node, ":")
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
}

// changes are what makes from into to.
func changes(from, to tree) []diff.Change {
	all := maps.Clone(from)
	maps.Copy(all, to)
	var out []diff.Change
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if from[path] != to[path] {
			out = append(out, diff.Change{Path: path, Was: state(from[path]), Is: state(to[path]), Content: content(to[path])})
		}
	}
	return out
}

// with returns tr changed: "" removes a path.
func (tr tree) with(more tree) tree {
	out := maps.Clone(tr)
	maps.Copy(out, more)
	maps.DeleteFunc(out, func(_, node string) bool { return node == "" })
	return out
}

func fill(t testing.TB, d vfs.Dir, tr tree) {
	t.Helper()
	ctx := context.Background()
	for _, path := range slices.Sorted(maps.Keys(tr)) {
		in, name, release, err := vfs.WalkParent(ctx, d, path)
		ok(t, err)
		kind, data, _ := strings.Cut(tr[path], ":")
		switch kind {
		case "dir":
			made, failed := in.Mkdir(ctx, name)
			if err = failed; err == nil {
				made.Close()
			}
		case "link":
			err = vfs.Symlink(ctx, in, name, data)
		case "file":
			_, err = in.Replace(ctx, name, strings.NewReader(data), vfs.If{})
		case "exec":
			_, err = vfs.Install(ctx, in, name, strings.NewReader(data), true, vfs.If{})
		}
		ok(t, err)
		release()
	}
}

// read returns all that d holds.
func read(t testing.TB, d vfs.Dir) tree {
	t.Helper()
	out := tree{}
	var visit func(d vfs.Dir, path string)
	visit = func(d vfs.Dir, path string) {
		for e, err := range d.List(context.Background()) {
			ok(t, err)
			n, err := d.Lookup(context.Background(), e.Name)
			ok(t, err)
			at := vfs.Join(path, e.Name)
			switch n := n.(type) {
			case vfs.Dir:
				out[at] = "dir"
				visit(n, at)
			case vfs.File:
				info, err := n.Stat(context.Background())
				ok(t, err)
				b := make([]byte, info.Size)
				if _, err := n.ReadAt(context.Background(), b, 0); err != nil && err != io.EOF {
					t.Fatal(err)
				}
				out[at] = "file:" + string(b)
				if info.Exec {
					out[at] = "exec:" + string(b)
				}
			case vfs.Link:
				target, err := n.Target(context.Background())
				ok(t, err)
				out[at] = "link:" + target
			}
			n.Close()
		}
	}
	visit(d, "")
	return out
}

func holds(t testing.TB, d vfs.Dir, want tree) {
	t.Helper()
	got := read(t, d)
	if maps.Equal(got, want) {
		return
	}
	t.Errorf("the tree holds\n%v\nwant\n%v", got, want)
}

// empty says that the journal has forgotten everything.
func empty(t testing.TB, journal vfs.Dir) {
	t.Helper()
	for name := range read(t, journal) {
		t.Errorf("the journal still has %s", name)
	}
}

// kept returns the ids of the batches that have ended and are kept, in byte order.
func kept(t testing.TB, journal vfs.Dir) (ids []string) {
	t.Helper()
	files := read(t, journal)
	for name := range files {
		if id, ok := strings.CutSuffix(name, ".outcome"); ok && files[id+".intent"] != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// store is a store in memory that holds tr.
func store(t testing.TB, tr tree) vfs.Dir {
	t.Helper()
	d := memory.New(memory.Limits{}).Root()
	fill(t, d, tr)
	return d
}

func journal() vfs.Dir { return memory.New(memory.Limits{}).Root() }

var big = "file:" + string(bytes.Repeat([]byte("0123456789abcdef"), 1<<17)) // longer than what is put from memory
