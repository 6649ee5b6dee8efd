package vfs_test

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// mapFS returns tree as a file system of the standard library.
func mapFS(tree vfstest.Tree) fstest.MapFS {
	m := fstest.MapFS{}
	for path, n := range tree {
		f := &fstest.MapFile{Data: []byte(n.Data), Mode: 0o644, ModTime: time.Now()}
		switch {
		case n.Dir:
			f.Mode = fs.ModeDir | 0o755
		case n.Link != "":
			f.Mode, f.Data = fs.ModeSymlink|0o777, []byte(n.Link)
		case n.Exec:
			f.Mode = 0o755
		}
		m[path] = f
	}
	return m
}

// zipOf returns the files of tree in a zip file, compressed.
func zipOf(t testing.TB, tree vfstest.Tree) *zip.Reader {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for path, n := range tree {
		h := &zip.FileHeader{Name: path, Method: zip.Deflate}
		switch {
		case n.Dir:
			h.Name += "/"
		case n.Link != "":
			continue
		case n.Exec:
			h.SetMode(0o755)
		default:
			h.SetMode(0o644)
		}
		f, err := w.CreateHeader(h)
		check.OK(t, err)
		_, err = io.WriteString(f, n.Data)
		check.OK(t, err)
	}
	check.OK(t, w.Close())
	r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	check.OK(t, err)
	return r
}

func TestFromFS(t *testing.T) {
	t.Run("with links", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Immutable: true, New: func(_ testing.TB, tree vfstest.Tree) vfs.Dir { return vfs.FromFS(mapFS(tree)) }})
	})
	t.Run("that reads forward only", func(t *testing.T) {
		vfstest.Run(t, vfstest.Store{Immutable: true, NoLinks: true, New: func(t testing.TB, tree vfstest.Tree) vfs.Dir { return vfs.FromFS(zipOf(t, tree)) }})
	})
}

// A file that can only be read from its beginning on is read at any offset, also by several at once.
func TestFromFSReadsBack(t *testing.T) {
	data := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	random.Read(data)
	d := vfs.FromFS(zipOf(t, vfstest.Tree{"d/f": {Data: string(data)}}))
	c, err := vfs.Open(t.Context(), check.FileAt(t, d, "d/f"))
	check.OK(t, err)
	done := make(chan error)
	for range 4 {
		r := rand.New(rand.NewPCG(random.Uint64(), 0))
		go func() {
			for range 50 {
				off := r.IntN(len(data) + 10)
				p := make([]byte, r.IntN(1000))
				n, err := c.ReadAt(p, int64(off))
				want := data[min(off, len(data)):min(off+len(p), len(data))]
				if !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) && len(p) > 0 {
					t.Errorf("%d bytes at %d: %d, %v", len(p), off, n, err)
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		<-done
	}
	check.OK(t, c.Close())
}

// What a file system cannot give is refused, and nothing of its errors but the code is shown.
func TestFromFSRefuses(t *testing.T) {
	d := vfs.FromFS(mapFS(vfstest.Tree{"f": {Data: "x"}, "d": {Dir: true}}))
	for _, name := range []string{"none", "\xff"} {
		_, err := d.Lookup(t.Context(), name)
		check.Is(t, name, err, vfs.NotFound)
	}
	m := mapFS(vfstest.Tree{"l": {Link: "f"}, "f": {}})
	m["pipe"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	_, err := vfs.FromFS(m).Lookup(t.Context(), "pipe")
	check.Is(t, "a FIFO", err, vfs.NotRegular)
	linkless := vfs.FromFS(struct{ fs.FS }{m})
	for e, err := range linkless.List(t.Context()) {
		check.OK(t, err)
		if want := map[string]vfs.Kind{"f": vfs.FileKind}[e.Name]; e.Kind != want {
			t.Errorf("%s is listed as %s", e.Name, e.Kind)
		}
	}
	secret := &fs.PathError{Op: "open", Path: "/home/somebody", Err: fs.ErrPermission}
	_, err = vfs.FromFS(failing{secret}).Lookup(t.Context(), "f")
	check.Is(t, "what the file system may not open", err, vfs.Denied)
	if strings.Contains(vfs.At("f", err).Error(), "somebody") {
		t.Error(err)
	}
	secret.Err = os.ErrDeadlineExceeded
	_, err = vfs.FromFS(failing{secret}).Lookup(t.Context(), "f")
	if got := vfs.At("f", err); vfs.CodeOf(got) != vfs.Internal || strings.Contains(got.Error(), "somebody") {
		t.Error(got)
	}
}

type failing struct{ err error }

func (f failing) Open(string) (fs.File, error) { return nil, f.err }

// names is a directory that lists these names, and in which no look-up finds anything.
type names []string

func (names) Lookup(context.Context, string) (vfs.Node, error) { return nil, vfs.NotFound }

func (n names) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for _, name := range n {
			if !yield(vfs.Entry{Name: name}, nil) {
				return
			}
		}
	}
}

// A directory that lists names in another order, or none, says so: pages and searches would lack some of them.
func TestListingOutOfOrder(t *testing.T) {
	for _, bad := range []names{{"b", "a"}, {"a", "a"}, {""}, {"a", "b/c"}, {".."}} {
		var last error
		for _, last = range vfs.NewImmutableDir(bad).List(t.Context()) {
		}
		check.Is(t, strings.Join(bad, " "), last, vfs.Internal)
		if got := vfs.At("", last).Error(); strings.Contains(got, "byte order") {
			t.Errorf("a guest sees %q", got)
		}
	}
	var sorted string
	for e, err := range vfs.Entries(vfs.Entry{Name: "b"}, vfs.Entry{Name: "\xff"}, vfs.Entry{Name: "B"}, vfs.Entry{Name: "a"}) {
		check.OK(t, err)
		if sorted += e.Name; e.Name == "b" {
			break
		}
	}
	if sorted != "Bab" {
		t.Errorf("listed %q", sorted)
	}
	for _, err := range vfs.NewImmutableDir(names{"A", "B", "a", "\xff"}).List(t.Context()) {
		check.OK(t, err)
	}
}
