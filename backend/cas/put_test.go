package cas_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest"
)

var sample = vfstest.Tree{
	"a.txt":              {Data: "hello"},
	"again":              {Data: "hello"},
	"run":                {Data: "#!/bin/sh\n", Exec: true},
	"sub/deep/b":         {Data: strings.Repeat("b", 3<<20)},
	"sub/empty":          {},
	"hollow":             {Dir: true},
	"link":               {Link: "sub/empty"},
	"outside":            {Link: "/etc/passwd"},
	"ünïcödé \U0001F600": {Data: "name"},
}

// code fails the test unless err has the code and the path.
func code(t *testing.T, what string, err error, want vfs.Code, path string) {
	t.Helper()
	e, ok := errors.AsType[*vfs.Error](err)
	if vfs.CodeOf(err) != want || !ok || e.Path != path {
		t.Errorf("%s: %v, want %s of %q", what, err, want, path)
	}
}

// The root of sample as the API's own types make it.
func TestPutAnswersTheAPIsDigest(t *testing.T) {
	marshal := func(m *repb.Directory) *repb.Digest {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		d := cas.DigestOf(b)
		return &repb.Digest{Hash: d.String(), SizeBytes: d.Size}
	}
	file := func(name string) *repb.FileNode {
		n := sample[name]
		d := cas.DigestOf([]byte(n.Data))
		return &repb.FileNode{Name: name[strings.LastIndexByte(name, '/')+1:], Digest: &repb.Digest{Hash: d.String(), SizeBytes: d.Size}, IsExecutable: n.Exec}
	}
	deep := marshal(&repb.Directory{Files: []*repb.FileNode{file("sub/deep/b")}})
	sub := marshal(&repb.Directory{Files: []*repb.FileNode{file("sub/empty")}, Directories: []*repb.DirectoryNode{{Name: "deep", Digest: deep}}})
	want := marshal(&repb.Directory{
		Files:       []*repb.FileNode{file("a.txt"), file("again"), file("run"), file("ünïcödé \U0001F600")},
		Directories: []*repb.DirectoryNode{{Name: "hollow", Digest: marshal(&repb.Directory{})}, {Name: "sub", Digest: sub}},
		Symlinks:    []*repb.SymlinkNode{{Name: "link", Target: "sub/empty"}, {Name: "outside", Target: "/etc/passwd"}},
	})
	s, dir := openStore(t)
	root := put(t, s, sample)
	if root.String() != want.Hash || root.Size != want.SizeBytes {
		t.Errorf("the root is %v of %d bytes, want %v", root, root.Size, want)
	}
	// Again, from what was stored, into another store.
	other, _ := openStore(t)
	again, err := cas.Put(t.Context(), other, open(t, s, root), cas.PutOptions{})
	if err != nil || again != root {
		t.Errorf("a tree put from a store: %v, %v", again, err)
	}
	err = filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		if err == nil && fi.Mode() != 0o444 {
			t.Errorf("a blob has the mode %v", fi.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the store has the mode %v, %v", fi.Mode(), err)
	}
	if got, err := s.Resolve(t.Context(), root.Hash); err != nil || got != root {
		t.Errorf("Resolve = %v, %v", got, err)
	}
	if _, err := s.Resolve(t.Context(), [32]byte{1}); vfs.CodeOf(err) != vfs.NotFound {
		t.Errorf("Resolve of nothing: %v", err)
	}
}

func TestPutStoresNothingTwice(t *testing.T) {
	s, dir := openStore(t)
	var last cas.Progress
	progress := func(p cas.Progress) {
		if p.Files < last.Files || p.Bytes < last.Bytes || p.NewBytes < last.NewBytes {
			t.Errorf("progress went back from %+v to %+v", last, p)
		}
		last = p
	}
	root, err := cas.Put(t.Context(), s, source(t, sample), cas.PutOptions{Progress: progress})
	if err != nil {
		t.Fatal(err)
	}
	if last.Files != 6 || last.Directories != 3 || last.Links != 2 || last.NewBytes < 3<<20 || last.Bytes != 3<<20+5+5+10+4 {
		t.Errorf("progress at the end is %+v", last)
	}
	first := last
	last = cas.Progress{}
	again, err := cas.Put(t.Context(), s, source(t, sample), cas.PutOptions{Progress: progress})
	if err != nil || again != root {
		t.Fatal(again, err)
	}
	if last.NewBytes != 0 || last.Files != first.Files {
		t.Errorf("put again, progress at the end is %+v", last)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("tmp holds %v, %v", left, err)
	}
	d := cas.Digest{Hash: [32]byte{1}, Size: 1}
	missing, err := s.Missing(t.Context(), []cas.Digest{root, d, cas.Empty, {Hash: root.Hash, Size: root.Size + 1}})
	if err != nil || len(missing) != 2 || missing[0] != d {
		t.Errorf("Missing = %v, %v", missing, err)
	}
}

// odd is a Dir with a set listing.
type odd struct {
	vfs.Dir
	entries []vfs.Entry
}

func (o odd) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) {
		for _, e := range o.entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (o odd) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if strings.HasPrefix(name, "gone") {
		return nil, vfs.NotFound
	}
	return o.Dir.Lookup(ctx, "f")
}

func TestPutOfWhatIsOdd(t *testing.T) {
	s, _ := openStore(t)
	list := func(entries ...vfs.Entry) vfs.Dir { return odd{source(t, vfstest.Tree{"f": {Data: "f"}}), entries} }
	putErr := func(d vfs.Dir, o cas.PutOptions) error { _, err := cas.Put(t.Context(), s, d, o); return err }
	fine := vfs.Entry{Name: "f", Kind: vfs.FileKind}
	for _, c := range []struct {
		name string
		code vfs.Code
	}{{"\xff", vfs.Invalid}, {"..", vfs.Invalid}, {"a/b", vfs.Invalid}, {"", vfs.Invalid}} {
		code(t, fmt.Sprintf("a name %q", c.name), putErr(list(fine, vfs.Entry{Name: c.name, Kind: vfs.FileKind}), cas.PutOptions{}), c.code, c.name)
	}
	if err := putErr(list(fine, fine), cas.PutOptions{}); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("a name twice: %v", err)
	}
	if err := putErr(list(fine, vfs.Entry{Name: "gone", Kind: vfs.FileKind}), cas.PutOptions{}); err != nil {
		t.Errorf("a name that goes meanwhile: %v", err)
	}
	special := list(fine, vfs.Entry{Name: "fifo", Kind: vfs.Other})
	code(t, "a special file", putErr(special, cas.PutOptions{}), vfs.NotRegular, "fifo")
	var skipped []string
	root, err := cas.Put(t.Context(), s, special, cas.PutOptions{Special: func(path string) error {
		skipped = append(skipped, path)
		return nil
	}})
	if err != nil || len(skipped) != 1 || skipped[0] != "fifo" {
		t.Errorf("skipping a special file: %v, %q", err, skipped)
	}
	if root != put(t, s, vfstest.Tree{"f": {Data: "f"}}) {
		t.Error("what was skipped changes the root")
	}
	m := memory.New(memory.Limits{})
	if err := vfstest.Symlink(m.Root())("l", "\xff"); err != nil {
		t.Fatal(err)
	}
	code(t, "a link to what is not UTF-8", putErr(m.Root(), cas.PutOptions{}), vfs.Invalid, "l")

	tree := source(t, sample)
	if err := putErr(tree, cas.PutOptions{Bounds: cas.Bounds{Bytes: 1 << 20}}); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("more bytes than the bound: %v", err)
	}
	if err := putErr(tree, cas.PutOptions{Bounds: cas.Bounds{Entries: 10}}); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("more nodes than the bound: %v", err)
	}
	if err := putErr(tree, cas.PutOptions{Bounds: cas.Bounds{Entries: 11, Bytes: 4 << 20}}); err != nil {
		t.Errorf("as much as the bounds: %v", err)
	}
	if err := putErr(tree, cas.PutOptions{Pin: "../x"}); vfs.CodeOf(err) != vfs.Invalid {
		t.Errorf("a pin that is a path: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cas.Put(ctx, s, tree, cas.PutOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a Put that is cancelled: %v", err)
	}
}

func TestPutNamesWhatFailed(t *testing.T) {
	s, dir := openStore(t)
	gate := membrane.NewGate()
	defer gate.Release()
	failing := membrane.Guarded(source(t, vfstest.Tree{"d/e/f": {Data: "f"}, "d/g": {Data: "g"}, "h": {Data: "h"}}), gate, membrane.Guard{
		Around: func(ctx context.Context, op membrane.Op, do func(context.Context) (vfs.Effect, error)) (vfs.Effect, error) {
			if op.Kind == membrane.OpRead && op.Path == "d/e/f" {
				return vfs.Effect{}, vfs.Denied
			}
			return do(ctx)
		},
	})
	_, err := cas.Put(t.Context(), s, failing, cas.PutOptions{Pin: "p"})
	code(t, "a file that may not be read", err, vfs.Denied, "d/e/f")
	pins, err := s.Pins(t.Context())
	if err != nil || len(pins) > 0 {
		t.Errorf("a Put that failed pinned %v, %v", pins, err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "tmp")); len(left) > 0 {
		t.Errorf("a Put that failed left %v", left)
	}
}

func TestDepth(t *testing.T) {
	s, _ := openStore(t)
	deepest := strings.Repeat("d/", vfs.MaxDepth-1) + "f"
	root := put(t, s, vfstest.Tree{deepest: {Data: "f"}})
	n, err := vfs.Walk(t.Context(), open(t, s, root), deepest)
	if err != nil {
		t.Fatal(err)
	}
	n.Close()
	// One level deeper, made of messages. Nobody can reach that, and no directory
	// contains itself.
	message, err := proto.Marshal(&repb.Directory{Directories: []*repb.DirectoryNode{{Name: "d", Digest: &repb.Digest{Hash: root.String(), SizeBytes: root.Size}}}})
	if err != nil {
		t.Fatal(err)
	}
	deeper := addBlob(t, s, string(message))
	d := open(t, s, deeper)
	for {
		n, err := d.Lookup(t.Context(), "d")
		if err != nil {
			n, err = d.Lookup(t.Context(), "f")
		}
		if err != nil {
			if vfs.CodeOf(err) != vfs.Corrupt {
				t.Errorf("the end of a tree that is too deep: %v, want corrupt", err)
			}
			break
		}
		t.Cleanup(func() { n.Close() })
		d = n.(vfs.Dir)
	}
	if _, err := cas.Put(t.Context(), s, open(t, s, deeper), cas.PutOptions{}); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("Put of a tree that is too deep: %v, want limit", err)
	}
}

// addBlob stores data as a blob.
func addBlob(t testing.TB, b cas.Blobs, data string) cas.Digest {
	t.Helper()
	u, err := b.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	d, err := u.Add(t.Context(), section(data))
	if err == nil {
		err = u.Commit(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func readBlob(t testing.TB, b cas.Blobs, d cas.Digest) (string, error) {
	t.Helper()
	c, err := b.Open(t.Context(), d)
	if err != nil {
		return "", err
	}
	defer c.Close()
	data, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	return string(data), err
}

// A stale file or link does not count as removed: otherwise a tree that was unmounted
// while it was stored would lack all of them.
func TestPutOfWhatIsStale(t *testing.T) {
	for op, path := range map[faultfs.Op]string{faultfs.Stat: "a.txt", faultfs.Target: "link"} {
		source := memory.New(memory.Limits{})
		vfstest.Fill(t, source.Root(), vfstest.Tree{"a.txt": {Data: "hello"}, "link": {Link: "a.txt"}},
			vfstest.Symlink(source.Root()), nil)
		plan := &faultfs.Plan{}
		plan.Fail(op, faultfs.Before, 0, vfs.Stale)
		store, err := cas.OpenAmbient(t.TempDir(), cas.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = cas.Put(t.Context(), store, faultfs.New(source.Root(), plan), cas.PutOptions{})
		code(t, "storing what is stale", err, vfs.Stale, path)
	}
}
