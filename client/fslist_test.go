package client_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"path"
	"strings"
	"testing"

	"capd/client"
	"capd/vfs"
)

// trips counts the calls by which an io/fs file system looks at a directory.
type trips struct {
	*client.Dir
	lists, looks int
}

func (c *trips) WalkList(ctx context.Context, path string, withInfo bool) iter.Seq2[vfs.InfoEntry, error] {
	c.lists++
	return c.Dir.WalkList(ctx, path, withInfo)
}

func (c *trips) WalkStat(ctx context.Context, path string, follow bool) (vfs.Info, error) {
	c.looks++
	return c.Dir.WalkStat(ctx, path, follow)
}

// The Info of entries is what Lstat says of them, and takes no call of its own.
func TestFSInfo(t *testing.T) {
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			d := &trips{Dir: guest(t, store(t, fsTree))}
			fsys := vfs.FS(t.Context(), d)
			dirs, entries := 0, 0
			ok(t, fs.WalkDir(fsys, ".", func(at string, e fs.DirEntry, err error) error {
				if err != nil {
					return err
				}
				if e.IsDir() {
					dirs++
				}
				entries++
				got, err := e.Info()
				if err != nil {
					return err
				}
				looks := d.looks
				want, err := fs.Lstat(fsys, at)
				d.looks = looks
				if err != nil || got.Size() != want.Size() || got.Mode() != want.Mode() || !got.ModTime().Equal(want.ModTime()) || at != "." && got.Name() != path.Base(at) {
					t.Errorf("%s: Info is %v, Lstat %v (%v)", at, fs.FormatFileInfo(got), fs.FormatFileInfo(want), err)
				}
				return nil
			}))
			// One directory was listed again when it turned out that Info is wanted. Before that, Info of
			// two entries was a call each, as was the first look at the root.
			if d.lists > dirs+1 || d.looks > 3 || entries < 15 {
				t.Errorf("%d lists and %d looks for %d entries in %d directories", d.lists, d.looks, entries, dirs)
			}
		})
	}
}

// What only lists does not look.
func TestFSInfoWithout(t *testing.T) {
	d := guest(t, stores["memory"](t, fsTree))
	looks := 0
	ok(t, fs.WalkDir(vfs.FS(t.Context(), watchful{d, &looks}), ".", func(_ string, _ fs.DirEntry, err error) error { return err }))
	if looks != 0 {
		t.Errorf("%d listings looked at entries that nobody asked about", looks)
	}
	// Without the right to metadata it lists, and Info is refused.
	fsys := vfs.FS(t.Context(), d.Narrow(client.AllRights&^client.Metadata))
	for range 2 {
		entries, err := fs.ReadDir(fsys, ".")
		ok(t, err)
		if len(entries) < 5 {
			t.Errorf("%d entries", len(entries))
		}
		for _, e := range entries {
			if _, err := e.Info(); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("Info of %s: %v", e.Name(), err)
			}
		}
	}
}

// watchful counts the listings that look at entries.
type watchful struct {
	*client.Dir
	looks *int
}

func (w watchful) WalkList(ctx context.Context, path string, withInfo bool) iter.Seq2[vfs.InfoEntry, error] {
	if withInfo {
		*w.looks++
	}
	return w.Dir.WalkList(ctx, path, withInfo)
}

// ReadFile is one call for a file that fits into it, and reads any other in pieces.
func TestFSReadFile(t *testing.T) {
	d := &reads{Dir: guest(t, stores["memory"](t, fsTree))}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MiB
	_, err := d.Put(t.Context(), "large", bytes.NewReader(large), vfs.If{})
	ok(t, err)
	_, err = d.Put(t.Context(), "small", strings.NewReader("small"), vfs.If{})
	ok(t, err)
	fsys := vfs.FS(t.Context(), d)
	for name, want := range map[string]string{"small": "small", "large": string(large)} {
		d.walks = 0
		got, err := fs.ReadFile(fsys, name)
		ok(t, err)
		if string(got) != want || name == "small" && d.walks != 0 {
			t.Errorf("%s: %d bytes after %d walks", name, len(got), d.walks)
		}
		clear(got) // it is the caller's
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, ".": vfs.IsDir, "/": fs.ErrInvalid} {
		if b, err := fs.ReadFile(fsys, name); !errors.Is(err, want) && !(name == "." && err != nil) || len(b) > 0 {
			t.Errorf("%s: %q and %v, want %v", name, b, err, want)
		}
	}
}

// reads counts the calls that a read in one call does not make.
type reads struct {
	*client.Dir
	walks int
}

func (c *reads) Walk(ctx context.Context, path string, follow bool) (vfs.Node, error) {
	c.walks++
	return c.Dir.Walk(ctx, path, follow)
}
