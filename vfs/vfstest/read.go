package vfstest

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"capd/vfs"
	"capd/vfs/lines"
)

var readRules = []rule{
	{"Read/Stat", anyStore, testStat},
	{"Read/Lookup", anyStore, testLookup},
	{"Read/List", anyStore, testList},
	{"Read/ListFrom", anyStore, testListFrom},
	{"Read/ListHuge", anyStore, testListHuge},
	{"Read/Scan", anyStore, testScan},
	{"Read/WalkList", anyStore, testWalkList},
	{"Read/Any", anyStore, testAny},
	{"Read/ReadAt", anyStore, testReadAt},
	{"Read/Trying", anyStore, testTrying},
	{"Read/Content", anyStore, testContent},
	{"Read/Version", anyStore, testVersion},
	{"Read/Lines", anyStore, testLines},
	{"Read/Cancelled", anyStore, testReadCancelled},
	{"Read/Errors", anyStore, testReadErrors},
}

func testStat(w *world) {
	w.make(sample)
	for path, n := range sample.All() {
		if n.Link != "" && w.s.NoLinks {
			continue
		}
		want := vfs.Info{Kind: vfs.FileKind, Size: int64(len(n.Data)), Exec: n.Exec && w.can.bits}
		switch {
		case n.Dir:
			want = vfs.Info{Kind: vfs.DirKind}
		case n.Link != "":
			want = vfs.Info{Kind: vfs.LinkKind}
		}
		got, err := w.at(path).Stat(w.ctx)
		w.ok("Stat "+path, err)
		if got.ModifiedMs < 0 || got.ModifiedMs > time.Now().Add(time.Hour).UnixMilli() {
			w.Errorf("Stat %s: modified at %d, which is no time in milliseconds", path, got.ModifiedMs)
		}
		if got.Links > 1 {
			w.Errorf("Stat %s: %d names, and it has one", path, got.Links)
		}
		got.ModifiedMs, got.Links = 0, 0
		if got != want {
			w.Errorf("Stat %s = %+v, want %+v", path, got, want)
		}
	}
	info, err := w.root.Stat(w.ctx)
	w.ok("Stat of the root", err)
	if info.Kind != vfs.DirKind {
		w.Errorf("the root is a %v", info.Kind)
	}
}

func testLookup(w *world) {
	w.make(sample)
	for path, n := range sample.All() {
		switch {
		case n.Dir:
			w.dir(path)
		case n.Link == "":
			w.file(path)
		case !w.s.NoLinks:
			target, err := w.link(path).Target(w.ctx)
			w.ok("Target "+path, err)
			if target != n.Link {
				w.Errorf("Target of %s = %q, want %q", path, target, n.Link)
			}
		}
		// Exactly one of the three.
		if n.Link != "" && w.s.NoLinks {
			continue
		}
		node, is := w.at(path), 0
		if _, ok := node.(vfs.Dir); ok {
			is++
		}
		if _, ok := node.(vfs.File); ok {
			is++
		}
		if _, ok := node.(vfs.Link); ok {
			is++
		}
		if is != 1 {
			w.Errorf("%s is %d of Dir, File and Link, want 1", path, is)
		}
	}
	for _, name := range []string{"missing", "F", "f ", " f", "f.", "%2e%2e", "~", "*"} {
		n, err := w.root.Lookup(w.ctx, name)
		w.is("Lookup "+name, err, vfs.NotFound)
		if err != nil && n != nil {
			w.Errorf("Lookup %s answers a node and an error", name)
		}
	}
}

func list(ctx context.Context, d vfs.Dir) ([]vfs.Entry, error) {
	var all []vfs.Entry
	for e, err := range d.List(ctx) {
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
	return all, nil
}

func testList(w *world) {
	names := []string{"B", "a", "A", "a-b", "a.b", "a0", "ab", "b", "Z", "~", "é", "e\u0301", "界", " ", "-", "..a", "...", "10", "9"}
	tree := Tree{"sub/inner": {}, "dir/only": {Dir: true}}
	for _, name := range names {
		tree[name] = Node{Data: name}
	}
	w.make(tree)
	want := append(slices.Clone(names), "sub", "dir")
	slices.Sort(want)
	all, err := list(w.ctx, w.root)
	w.ok("List", err)
	var got []string
	for _, e := range all {
		got = append(got, e.Name)
		kind := vfs.FileKind
		if e.Name == "sub" || e.Name == "dir" {
			kind = vfs.DirKind
		}
		if e.Kind != kind {
			w.Errorf("List says that %q is a %v", e.Name, e.Kind)
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("List = %q, want %q", got, want)
	}
	for _, name := range names {
		w.has(name, name) // all are distinct: case and normalization matter
	}

	empty, err := list(w.ctx, w.dir("dir/only"))
	w.ok("List of an empty directory", err)
	if len(empty) > 0 {
		w.Errorf("an empty directory holds %v", empty)
	}
	seq := w.root.List(w.ctx) // stopped half-way, and used twice
	for range seq {
		break
	}
	n := 0
	for _, err := range seq {
		w.ok("List for the second time", err)
		n++
	}
	if n != len(want) {
		w.Errorf("List for the second time yields %d entries, want %d", n, len(want))
	}
}

func testListFrom(w *world) {
	w.make(Tree{"a": {}, "b/in": {}, "b.x": {}, "c": {Data: "c"}, "B": {}, "é": {}})
	all, err := list(w.ctx, w.root)
	w.ok("List", err)
	for _, from := range []string{"", "A", "B", "B\x00", "b", "b.", "c", "\xc2", "é", "é\x00", "\xff"} {
		want := slices.DeleteFunc(slices.Clone(all), func(e vfs.Entry) bool { return e.Name < from })
		var got []vfs.Entry
		for e, err := range vfs.ListFrom(w.ctx, w.root, from) {
			w.ok("ListFrom", err)
			got = append(got, e)
		}
		if !slices.Equal(got, want) {
			w.Errorf("ListFrom %q = %v, want %v", from, got, want)
		}
	}
}

func testListHuge(w *world) {
	const n = 1000
	tree := Tree{}
	for i := range n {
		tree["d/"+strings.Repeat("n", i%50)+"-"+string(rune('a'+i%26))+"-"+strconv.Itoa(i)] = Node{}
	}
	w.make(tree)
	all, err := list(w.ctx, w.dir("d"))
	w.ok("List", err)
	want := slices.Sorted(maps.Keys(tree))
	if len(all) != n {
		w.Fatalf("List yields %d entries, want %d", len(all), n)
	}
	for i, e := range all {
		if "d/"+e.Name != want[i] {
			w.Fatalf("entry %d is %q, want %q", i, e.Name, want[i])
		}
	}
}

// testReadAt checks File.ReadAt and Content.ReadAt against the rules of io.ReaderAt.
func testReadAt(w *world) {
	data := strings.Repeat("0123456789", 20_000) // over more than one chunk of anything
	w.make(Tree{"f": {Data: data}, "empty": {}})
	f := w.file("f")
	c, err := vfs.Open(w.ctx, f)
	w.ok("Open", err)
	defer c.Close()
	size := int64(len(data))
	for _, off := range []int64{0, 1, 65_535, 65_536, 131_000, size - 10, size - 1, size, size + 1, size + 1<<40} {
		for _, n := range []int{0, 1, 10, 65_536, 200_000} {
			want := data[min(off, size):min(off+int64(n), size)]
			w.readsAt("File.ReadAt", func(p []byte) (int, error) { return f.ReadAt(w.ctx, p, off) }, n, want)
			w.readsAt("Content.ReadAt", func(p []byte) (int, error) { return c.ReadAt(p, off) }, n, want)
		}
	}
	far := int64(math.MaxInt64)
	for _, off := range []int64{0, size - 1, size, size + 1, far - 3, far} {
		for what, f := range map[string]vfs.File{"": f, "empty": w.file("empty")} {
			atEnd := what == "empty" || off >= size
			if n, err := f.ReadAt(w.ctx, nil, off); n != 0 || (err == io.EOF) != atEnd || err != nil && err != io.EOF {
				w.Errorf("ReadAt of no bytes of the %s file at %d = %d, %v", what, off, n, err)
			}
			if n, err := f.ReadAt(w.ctx, make([]byte, 10), off); atEnd && (n != 0 || err != io.EOF) {
				w.Errorf("ReadAt of the %s file at %d = %d, %v", what, off, n, err)
			}
		}
	}
	_, err = f.ReadAt(w.ctx, make([]byte, 1), -1)
	w.is("ReadAt below 0", err, vfs.Invalid)
	w.readsAt("ReadAt of nothing", func(p []byte) (int, error) { return w.file("empty").ReadAt(w.ctx, p, 0) }, 4, "")
}

// testTrying looks up and reads twice, waiting and not waiting. The first may leave a
// file open for the second.
func testTrying(w *world) {
	data := strings.Repeat("0123456789", 20_000)
	w.make(Tree{"d/f": {Data: data}, "empty": {}})
	f := w.file("d/f")
	size := int64(len(data))
	for _, off := range []int64{0, 1, 65_535, 131_000, size - 10, size, size + 1<<40, math.MaxInt64 - 3, math.MaxInt64} {
		for _, n := range []int{0, 1, 10, 65_536, 300_000} {
			want := data[min(off, size):]
			want = want[:min(n, len(want))]
			for range 2 {
				w.tries(f, off, n, want)
				w.readsAt("ReadAt", func(p []byte) (int, error) { return f.ReadAt(w.ctx, p, off) }, n, want)
			}
		}
	}
	w.tries(w.file("empty"), 0, 4, "")
	if _, err := tryReadAt(f, make([]byte, 1), -1); err != vfs.ErrWouldBlock {
		w.is("trying to read below 0", err, vfs.Invalid)
	}

	for path, code := range map[string]vfs.Code{"d/f": "", "d": "", "missing": vfs.NotFound, "d/missing": vfs.NotFound, "d/f/x": vfs.NotDir} {
		n, err := vfs.Walk(vfs.Trying(), w.root, path)
		if err == vfs.ErrWouldBlock {
			continue
		}
		if code != "" {
			w.is("trying to walk to "+path, err, code)
			continue
		}
		w.ok("trying to walk to "+path, err)
		want, werr := n.Stat(w.ctx)
		w.ok("Stat", werr)
		if vfs.CanTry(n) {
			got, err := n.Stat(vfs.Trying())
			if err != vfs.ErrWouldBlock && (err != nil || got != want) {
				w.Errorf("trying, Stat of %s = %+v, %v, want %+v", path, got, err, want)
			}
		}
		n.Close()
	}
	w.ok("Close", f.Close())
	if n, err := tryReadAt(f, make([]byte, 1), 0); err == nil {
		w.Errorf("a closed File reads %d bytes to one who tries", n)
	}
}

func tryReadAt(f vfs.File, p []byte, off int64) (int, error) {
	if !vfs.CanTry(f) {
		return 0, vfs.ErrWouldBlock
	}
	return f.ReadAt(vfs.Trying(), p, off)
}

// tries checks that a read with vfs.Trying reads want, if it reads anything.
func (w *world) tries(f vfs.File, off int64, n int, want string) {
	w.Helper()
	if _, err := tryReadAt(f, make([]byte, n), off); err == vfs.ErrWouldBlock {
		return
	}
	w.readsAt("trying", func(p []byte) (int, error) {
		got, err := tryReadAt(f, p, off)
		if err == vfs.ErrWouldBlock { // it may do so at any time
			copy(p, strings.Repeat("?", len(p)))
			return f.ReadAt(w.ctx, p, off)
		}
		return got, err
	}, n, want)
}

func (w *world) readsAt(what string, read func([]byte) (int, error), n int, want string) {
	w.Helper()
	p := []byte(strings.Repeat("?", n))
	got, err := read(p)
	switch {
	case got < 0 || got > n || string(p[:got]) != want:
		w.Errorf("%s of %d bytes: %d bytes, %v, want %d", what, n, got, err, len(want))
	case got < n && !errors.Is(err, io.EOF):
		w.Errorf("%s: %d bytes of %d with %v, want io.EOF", what, got, n, err)
	case err != nil && !errors.Is(err, io.EOF):
		w.Errorf("%s: %v", what, err)
	}
	if got >= 0 && got < n && strings.Trim(string(p[got:]), "?") != "" {
		w.Errorf("%s wrote beyond the %d bytes it read", what, got)
	}
}

func testContent(w *world) {
	w.make(sample)
	f := w.file("d/g")
	c, err := vfs.Open(w.ctx, f)
	w.ok("Open", err)
	if c.Size() != 5 {
		w.Errorf("Size = %d, want 5", c.Size())
	}
	w.ok("closing the File", f.Close())
	if _, ok := f.(vfs.Opener); ok {
		w.readsAt("a Content after its File was closed", func(p []byte) (int, error) { return c.ReadAt(p, 0) }, 5, "below")
	}
	if _, err := c.ReadAt(make([]byte, 1), -1); err == nil {
		w.Errorf("Content.ReadAt below 0 answers no error")
	}
	w.ok("Close", c.Close())
	if err := c.Close(); err != nil {
		w.Errorf("closing a Content again: %v", err)
	}
}

func testVersion(w *world) {
	w.make(sample)
	for path, n := range sample {
		if n.Link == "" && !n.Dir {
			w.has(path, n.Data)
			w.has(path, n.Data) // and again, from a cache or not
		}
	}
}

func testReadCancelled(w *world) {
	w.make(sample)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	f, d := w.file("f"), w.dir("d")
	for what, op := range map[string]func() error{
		"Lookup": func() error { _, err := d.Lookup(ctx, "g"); return err },
		"Stat":   func() error { _, err := f.Stat(ctx); return err },
		"List":   func() error { _, err := list(ctx, d); return err },
		"ReadAt": func() error { _, err := f.ReadAt(ctx, make([]byte, 1), 0); return err },
	} {
		if err := op(); err == nil {
			w.Errorf("%s with a cancelled context answers no error", what)
		} else if !errors.Is(err, context.Canceled) {
			w.fit(what, err)
		}
	}
}

func testReadErrors(w *world) {
	w.make(sample)
	_, err := w.dir("d").Lookup(w.ctx, "missing")
	w.is("Lookup", err, vfs.NotFound)
	_, err = w.dir("d/e").Lookup(w.ctx, "g")
	w.is("Lookup of what is further up", err, vfs.NotFound)
}

// testLines reads windows of lines, of a file in another encoding too.
func testLines(w *world) {
	const odd = "\xef\xbb\xbfone\r\ntw\xf6\r\nthree\nfour"
	w.make(Tree{"f": {Data: odd}, "empty": {}})
	for _, c := range []struct {
		q    lines.Query
		data string
		next int64
		more bool
	}{
		{lines.Query{}, odd, 5, false},
		{lines.Query{From: 2, Count: 2}, "tw\xf6\r\nthree\n", 4, true},
		{lines.Query{Count: 1, Last: true}, "four", 5, false},
		{lines.Query{From: 7, Count: 2}, "", 5, false},
	} {
		got, err := lines.Read(w.ctx, w.file("f"), c.q)
		w.ok("ReadLines", err)
		if string(got.Data) != c.data || got.Next != c.next || got.More != c.more || got.Total != 4 || got.Version != sum(odd) {
			w.Errorf("%+v is %+v, want %q, next %d, more %v", c.q, got, c.data, c.next, c.more)
		}
	}
	got, err := lines.Read(w.ctx, w.file("empty"), lines.Query{Last: true})
	if err != nil || got.Count != 0 || got.Version != sum("") {
		w.Errorf("the lines of an empty file are %+v, %v", got, err)
	}
}
