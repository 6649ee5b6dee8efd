package vfstest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing/iotest"
	"time"

	"capd/vfs"
)

var replaceRules = []rule{
	{"Replace/Content", writable, testReplaceContent},
	{"Replace/Exec", writable, testReplaceExec},
	{"Replace/NotAFile", writable, testReplaceNotAFile},
	{"Replace/Failing", writable, testReplaceFailing},
	{"Replace/Endless", writable, testReplaceEndless},
	{"Replace/OpenContent", writable, testReplaceOpenContent},
	{"Replace/ThroughFile", writable, testReplaceFile},
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
