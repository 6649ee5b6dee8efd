package vfstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing/iotest"
	"time"

	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/editing"
)

var replaceRules = []rule{
	{"Replace/Content", writable, testReplaceContent},
	{"Replace/Exec", writable, testReplaceExec},
	{"Replace/NotAFile", writable, testReplaceNotAFile},
	{"Replace/Failing", writable, testReplaceFailing},
	{"Replace/Endless", writable, testReplaceEndless},
	{"Replace/OpenContent", writable, testReplaceOpenContent},
	{"Replace/ThroughFile", writable, testReplaceFile},
	{"Replace/Edit", writable, testEdit},
	{"Replace/EditsAtOnce", writable, testEditsAtOnce},
}

func testReplaceContent(w *world) {
	w.make(sample)
	big := bytes.Repeat([]byte("a line of some length, to be repeated\n"), 5<<20/38)
	for _, data := range []string{"new", "", "longer than it was before", string(big), "short again", "\x00\xff\r\n"} {
		for _, name := range []string{"f", "fresh", "empty"} {
			if v := w.put(name, data); v != sum(data) {
				w.Errorf("the version that Replace answers is not the sha256 of what it wrote")
			}
			w.has(name, data)
		}
	}
	before, err := w.file("f").Stat(w.ctx)
	w.ok("Stat", err)
	if d := time.Since(time.UnixMilli(before.ModifiedMs)).Abs(); d > time.Minute {
		w.Errorf("what was replaced was modified %v from now", d)
	}
	// Readers of every kind.
	for what, r := range map[string]io.Reader{
		"a byte at a time": iotest.OneByteReader(strings.NewReader("some text")),
		"halves":           iotest.HalfReader(strings.NewReader("some text")),
		"data with EOF":    iotest.DataErrReader(strings.NewReader("some text")),
	} {
		v, err := w.root.Replace(w.ctx, "f", r, vfs.If{})
		w.ok(what, err)
		if v != sum("some text") {
			w.Errorf("%s: wrong version", what)
		}
		w.has("f", "some text")
	}
}

func testReplaceExec(w *world) {
	w.make(sample)
	w.put("x", "#!/bin/true\n")
	w.executable("after Replace", "x", true)
	w.put("f", "plain")
	w.executable("after Replace", "f", false)
}

func testReplaceNotAFile(w *world) {
	w.make(sample)
	before := w.picture()
	for _, name := range []string{"d", "hollow"} {
		_, err := w.root.Replace(w.ctx, name, strings.NewReader("x"), vfs.If{})
		w.is("Replace of a directory", err, vfs.IsDir)
	}
	if !w.s.NoLinks {
		for _, name := range []string{"l", "up", "nowhere"} {
			_, err := w.root.Replace(w.ctx, name, strings.NewReader("x"), vfs.If{})
			w.is("Replace of a link", err, vfs.NotRegular)
		}
	}
	w.unchanged("Replace of what is no file", before)
}

func testReplaceFailing(w *world) {
	w.make(sample)
	before := w.picture()
	broken := vfs.Errorf(vfs.TooLarge, "the reader broke")
	for _, name := range []string{"f", "fresh"} {
		for _, given := range []string{"", "some", strings.Repeat("much", 100_000)} {
			r := io.MultiReader(strings.NewReader(given), iotest.ErrReader(broken))
			_, err := w.root.Replace(w.ctx, name, r, vfs.If{})
			if !errors.Is(err, broken) && vfs.CodeOf(err) != vfs.TooLarge {
				w.Errorf("Replace answers %v, want the reader's error", err)
			}
		}
	}
	w.unchanged("Replace from a reader that fails", before)
}

// endless returns a little at a time and never ends.
type endless struct{ started chan struct{} }

func (e *endless) Read(p []byte) (int, error) {
	if e.started != nil {
		close(e.started)
		e.started = nil
	}
	time.Sleep(time.Millisecond)
	return copy(p, "more and "), nil
}

func testReplaceEndless(w *world) {
	w.make(sample)
	before := w.picture()
	for _, name := range []string{"f", "fresh"} {
		ctx, cancel := context.WithCancel(w.ctx)
		r := &endless{started: make(chan struct{})}
		started, done := r.started, make(chan error, 1)
		go func() {
			_, err := w.root.Replace(ctx, name, r, vfs.If{})
			done <- err
		}()
		<-started
		w.unchanged("in the middle of Replace", before)
		cancel()
		select {
		case err := <-done:
			if err == nil {
				w.Errorf("a cancelled Replace answers no error")
			}
			w.fit("a cancelled Replace", err)
		case <-time.After(10 * time.Second):
			w.Fatalf("a cancelled Replace goes on")
		}
	}
	w.unchanged("a cancelled Replace", before)
}

// testReplaceOpenContent opens a content, and then replaces, removes and moves its
// file.
func testReplaceOpenContent(w *world) {
	long := strings.Repeat("the old content ", 20_000)
	w.make(Tree{"f": {Data: long}, "g": {Data: "other"}})
	f := w.file("f")
	if _, ok := f.(vfs.Opener); !ok {
		w.Log("these files hold no content open")
		return
	}
	c, err := vfs.Open(w.ctx, f)
	w.ok("Open", err)
	defer c.Close()
	keeps := func(after string) {
		w.Helper()
		got, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
		if err != nil || string(got) != long {
			w.Errorf("after %s an open content reads %s, %v", after, short(string(got)), err)
		}
	}
	w.put("f", "new")
	keeps("Replace")
	w.reads(f, "new")
	w.put("f", strings.Repeat("N", len(long)))
	keeps("another Replace")
	w.ok("Rename", w.root.Rename(w.ctx, "f", w.root, "h", vfs.If{}, vfs.If{}))
	keeps("Rename")
	w.ok("Remove", w.root.Remove(w.ctx, "h", vfs.If{}))
	keeps("Remove")
}

// testReplaceFile replaces a file through itself, if the store supports that.
func testReplaceFile(w *world) {
	w.make(sample)
	x := w.file("x")
	v, err := x.Replace(w.ctx, strings.NewReader("new"), vfs.If{Is: sum(sample["x"].Data)})
	if vfs.CodeOf(err) == vfs.Unsupported {
		w.Log("these files are not replaced through themselves")
		return
	}
	w.ok("ReplaceFile", err)
	if v != sum("new") {
		w.Errorf("the version that ReplaceFile answers is not the sha256 of what it wrote")
	}
	w.reads(x, "new")
	w.has("x", "new")
	w.executable("after ReplaceFile", "x", true)
	before := w.picture()
	for _, c := range []vfs.If{{Is: sum("else")}, {Absent: true}} {
		_, err = x.Replace(w.ctx, strings.NewReader("newer"), c)
		w.is("ReplaceFile", err, vfs.Conflict)
	}
	w.unchanged("conflicts", before)
}

// testEdit edits a file in another encoding.
func testEdit(w *world) {
	const was, becomes = "\xef\xbb\xbfcaf\xe9\r\nb\r\nc", "\xef\xbb\xbfth\xe9\r\nb\r\nx\r\nc"
	w.make(Tree{"f": {Data: was}})
	f := w.file("f")
	edits := []edit.Edit{{Old: []byte("caf"), New: []byte("th")}, {Old: []byte("b\nc"), New: []byte("b\nx\nc")}}
	try := func(r editing.Request) (editing.Result, error) {
		return editing.Edit(w.ctx, f, r, editing.How{Path: "f"})
	}
	got, err := try(editing.Request{Edits: edits, Dry: true})
	if vfs.CodeOf(err) == vfs.Unsupported {
		return
	}
	w.ok("a dry run", err)
	if got.Version != sum(becomes) || fmt.Sprint(got.Changed) != "[{1 1} {3 1}]" || !strings.Contains(string(got.Diff), "\n-\xef\xbb\xbfcaf\xe9\r\n") {
		w.Errorf("a dry run answers %v, %q", got, got.Diff)
	}
	w.reads(f, was)
	_, err = try(editing.Request{Edits: edits, If: vfs.If{Is: sum("else")}})
	w.is("an edit of another version", err, vfs.Conflict)
	_, err = try(editing.Request{Edits: append(edits, edit.Edit{Old: []byte("none"), New: []byte("x")})})
	w.is("edits of which one does not match", err, vfs.Conflict)
	_, err = try(editing.Request{Edits: []edit.Edit{{ByLines: true, Lines: edit.Range{First: 1, Count: 1}}}})
	w.is("an edit by lines without a version", err, vfs.Invalid)
	w.reads(f, was)
	got, err = try(editing.Request{Edits: edits, If: vfs.If{Is: sum(was)}})
	w.ok("an edit", err)
	if got.Version != sum(becomes) || got.Replaced != 2 {
		w.Errorf("an edit answers %+v", got)
	}
	w.reads(f, becomes)
	got, err = try(editing.Request{Edits: []edit.Edit{{ByLines: true, Lines: edit.Range{First: 2, Count: 2}}}, If: vfs.If{Is: got.Version}})
	w.ok("an edit by lines", err)
	w.reads(f, "\xef\xbb\xbfth\xe9\r\nc")
	w.has("f", "\xef\xbb\xbfth\xe9\r\nc")
}

// testEditsAtOnce makes 50 edits of one file at once.
func testEditsAtOnce(w *world) {
	const n = 50
	var was, becomes strings.Builder
	for i := range n {
		fmt.Fprintf(&was, "line %d.\n", i)
		fmt.Fprintf(&becomes, "edited %d.\n", i)
	}
	w.make(Tree{"f": {Data: was.String()}})
	f := w.file("f")
	if _, err := f.Replace(w.ctx, strings.NewReader(was.String()), vfs.If{}); vfs.CodeOf(err) == vfs.Unsupported {
		return
	}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			_, err := editing.Edit(w.ctx, f, editing.Request{Edits: []edit.Edit{{Old: fmt.Appendf(nil, "line %d.", i), New: fmt.Appendf(nil, "edited %d.", i)}}}, editing.How{})
			if err != nil {
				w.Errorf("edit %d of %d at once: %v", i, n, err)
			}
		})
	}
	all.Wait()
	w.has("f", becomes.String())
}
