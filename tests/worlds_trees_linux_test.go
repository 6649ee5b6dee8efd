package tests

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/client"
	"capd/vfs"
)

// fill makes the tree to work on: about 260 files, links and directories.
func (w *estate) fill(rel string) {
	w.Helper()
	for i := range 10 {
		for j := range 20 {
			name := fmt.Sprintf("%s/d%d/f%d", rel, i, j)
			w.write(name, fmt.Sprintf("%d of %d: %s", j, i, strings.Repeat("line\n", 1<<(j%10))))
			if j%5 == 0 {
				ok(w, os.Chmod(w.path(name), 0o755))
			}
		}
	}
	for i := range 3 {
		w.write(fmt.Sprintf("%s/big%d", rel, i), strings.Repeat(fmt.Sprintf("%d before\n", i), 120_000))
	}
	for i := range 20 {
		w.write(fmt.Sprintf("%s/old/sub%d/f%d", rel, i%3, i), fmt.Sprint("moves ", i))
	}
	ok(w, os.Chmod(w.path(rel+"/old/sub0/f0"), 0o755))
	ok(w, os.Symlink("../d7/f0", w.path(rel+"/old/link")))
	ok(w, os.Symlink("d7/f1", w.path(rel+"/link")))
}

// edit makes about 230 changes to the tree: files are replaced, added and
// removed, a directory is moved, a directory becomes a file, and a file becomes a
// directory.
func edit(w *estate, d *client.Dir) {
	w.Helper()
	ctx := context.Background()
	put := func(path, data string) {
		w.Helper()
		_, err := d.Put(ctx, path, strings.NewReader(data), vfs.If{})
		ok(w, err)
	}
	mkdir := func(path string) {
		w.Helper()
		sub, err := d.CreateDir(ctx, path)
		ok(w, err)
		sub.Close()
	}
	remove := func(path string) {
		w.Helper()
		ok(w, d.RemovePath(ctx, path, vfs.If{}))
	}
	for i := range 4 {
		for j := range 20 {
			put(fmt.Sprintf("d%d/f%d", i, j), fmt.Sprint("changed ", i, j))
		}
	}
	for i := 4; i < 6; i++ {
		for j := range 20 {
			remove(fmt.Sprintf("d%d/f%d", i, j))
		}
		remove(fmt.Sprintf("d%d", i))
	}
	put("d5", "a file now")
	for i := range 2 {
		mkdir(fmt.Sprintf("new%d", i))
		for j := range 20 {
			put(fmt.Sprintf("new%d/f%d", i, j), fmt.Sprint("new ", i, j))
		}
	}
	for i := range 3 {
		put(fmt.Sprintf("big%d", i), strings.Repeat(fmt.Sprintf("%d after\n", i), 130_000))
	}
	remove("d6/f0")
	mkdir("d6/f0")
	put("d6/f0/in", "within what was a file")
	remove("link")
	ok(w, d.Move(ctx, "old", d, "moved", vfs.If{}, vfs.If{}))
	put("moved/sub1/f1", "moved and changed")
}

// editing makes the same changes in a shell, and makes some files executable.
const editing = `
for i in 0 1 2 3; do for f in d$i/*; do echo changed $f > $f; done; done
rm -r d4 d5; echo a file now > d5
for i in 0 1; do mkdir new$i; for j in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do echo new $i $j > new$i/f$j; done; done
for i in 0 1 2; do yes after $i | head -n 150000 > big$i; done
rm d6/f0; mkdir d6/f0; echo within > d6/f0/in
rm link old/link; mv old moved; echo moved and changed > moved/sub1/f1
chmod +x d7/f1 new0/f0; chmod -x d7/f0
`

// contents returns what a batch guarantees about the tree below dir: kinds,
// contents, links and executable bits.
func contents(t testing.TB, dir string) picture {
	t.Helper()
	p := picture{}
	ok(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what, special := "", info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)
		switch info.Mode() & fs.ModeType {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what = fileText(data, info.Mode()&0o100 != 0)
		case fs.ModeDir:
			what = "dir"
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			what = "link:" + to
		default:
			what = info.Mode().Type().String()
		}
		if special != 0 {
			what += " " + special.String()
		}
		p[strings.TrimPrefix(path, dir+"/")] = what
		return nil
	}))
	return p
}

// fileText describes a file in a picture.
func fileText(data []byte, exec bool) string {
	what := "file:"
	if exec {
		what = "exec:"
	}
	if len(data) > 40 {
		return what + fmt.Sprintf("%d bytes %x", len(data), sha256.Sum256(data))
	}
	return what + string(data)
}

// shown is contents of what a guest sees below top.
func shown(t testing.TB, top *client.Dir) picture {
	t.Helper()
	ctx := context.Background()
	p := picture{}
	var look func(d *client.Dir, at string)
	look = func(d *client.Dir, at string) {
		t.Helper()
		for e, err := range d.List(ctx) {
			ok(t, err)
			path := vfs.Join(at, e.Name)
			n, err := top.Walk(ctx, path, false) // a link's target is shown relative to this Dir only
			ok(t, err)
			switch n := n.(type) {
			case *client.Dir:
				p[path] = "dir"
				look(n, path)
			case *client.File:
				info, err := n.Stat(ctx)
				ok(t, err)
				data, _, err := n.ReadBytes(ctx)
				ok(t, err)
				p[path] = fileText(data, info.Exec)
			case vfs.Link:
				to, err := n.Target(ctx)
				ok(t, err)
				p[path] = "link:" + to
			}
			n.Close()
		}
	}
	look(top, "")
	return p
}

// with returns p with the entries of q added. An entry "" in q removes the path.
func (p picture) with(q picture) picture {
	out := picture{}
	for _, from := range []picture{p, q} {
		for path, what := range from {
			if out[path] = what; what == "" {
				delete(out, path)
			}
		}
	}
	return out
}
