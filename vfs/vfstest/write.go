package vfstest

import (
	"fmt"
	"math"
	"strings"

	"capd/vfs"
)

var writeRules = []rule{
	{"Write/WriteAt", writable, testWriteAt},
	{"Write/Truncate", writable, testTruncate},
	{"Write/Append", writable, testAppend},
	{"Write/Sync", writable, testSync},
	{"Write/Model", writable, testWriteModel},
}

func (w *world) writes(f vfs.File, data string, off int64) {
	w.Helper()
	n, err := f.WriteAt(w.ctx, []byte(data), off, vfs.If{})
	w.ok("WriteAt", err)
	if n != len(data) {
		w.Errorf("WriteAt = %d without an error, want %d", n, len(data))
	}
}

func testWriteAt(w *world) {
	w.make(sample)
	f := w.file("f")
	w.writes(f, "THE", 0)
	w.reads(f, "THE old content")
	w.writes(f, "ent and more", 12)
	w.reads(f, "THE old content and more")
	w.writes(f, "!", 30)
	w.reads(f, "THE old content and more\x00\x00\x00\x00\x00\x00!")
	w.writes(f, "", 5)
	w.writes(f, "", 1000)
	w.reads(f, "THE old content and more\x00\x00\x00\x00\x00\x00!")

	e := w.file("empty")
	far := int64(200_000)
	w.writes(e, "far", far)
	w.reads(e, strings.Repeat("\x00", int(far))+"far")

	before := w.picture()
	for _, off := range []int64{-1, math.MinInt64} {
		_, err := f.WriteAt(w.ctx, []byte("x"), off, vfs.If{})
		w.is("WriteAt below 0", err, vfs.Invalid)
	}
	if _, err := f.WriteAt(w.ctx, []byte("xx"), math.MaxInt64, vfs.If{}); err == nil {
		w.Errorf("WriteAt over the largest offset answers no error")
	} else {
		w.fit("WriteAt over the largest offset", err)
	}
	w.unchanged("WriteAt out of range", before)

	x := w.file("x")
	w.writes(x, "#", 0)
	w.executable("after WriteAt", "x", true)
}

func testTruncate(w *world) {
	w.make(sample)
	f := w.file("f")
	for _, step := range []struct {
		size int64
		want string
	}{
		{15, "the old content"}, {7, "the old"}, {10, "the old\x00\x00\x00"}, {0, ""}, {2, "\x00\x00"},
		{150_000, strings.Repeat("\x00", 150_000)}, {3, "\x00\x00\x00"},
	} {
		w.ok("Truncate", f.Truncate(w.ctx, step.size, vfs.If{}))
		w.reads(f, step.want)
	}
	w.is("Truncate below 0", f.Truncate(w.ctx, -1, vfs.If{}), vfs.Invalid)
	w.reads(f, "\x00\x00\x00")
}

func testAppend(w *world) {
	w.make(sample)
	f := w.appendable("f")
	for _, step := range []struct{ add, want string }{
		{" and", "the old content and"}, {"", "the old content and"}, {" more", "the old content and more"},
	} {
		info, err := f.Stat(w.ctx)
		w.ok("Stat", err)
		off, err := vfs.Append(w.ctx, f, []byte(step.add), vfs.If{})
		w.ok("Append", err)
		if off != info.Size {
			w.Errorf("Append = %d, want %d", off, info.Size)
		}
		w.reads(f, step.want)
	}
}

// appendable returns a file, or skips the test if files cannot append.
func (w *world) appendable(path string) vfs.File {
	w.Helper()
	f := w.file(path)
	if _, err := vfs.Append(w.ctx, f, nil, vfs.If{}); vfs.CodeOf(err) == vfs.Unsupported {
		w.Skip("these files do not append")
	}
	return f
}

func testSync(w *world) {
	w.make(sample)
	f := w.file("f")
	w.writes(f, "THE", 0)
	w.ok("Sync", f.Sync(w.ctx))
	w.ok("Sync of what was not written", w.file("d/g").Sync(w.ctx))
	w.reads(f, "THE old content")
}

// testWriteModel makes many writes that cross chunk boundaries of any size, and
// compares with a slice of bytes.
func testWriteModel(w *world) {
	w.make(Tree{"f": {}})
	f := w.file("f")
	var model []byte
	grow := func(size int) {
		if size > len(model) {
			model = append(model, make([]byte, size-len(model))...)
		}
	}
	seed := uint32(1)
	random := func(n int) int { seed = seed*1664525 + 1013904223; return int(seed>>8) % n }
	for i := range 150 {
		switch random(5) {
		case 0:
			size := random(400_000)
			w.ok("Truncate", f.Truncate(w.ctx, int64(size), vfs.If{}))
			grow(size)
			model = model[:size:size]
		case 1:
			model = []byte(strings.Repeat("replaced", random(20_000)))
			w.put("f", string(model))
		default:
			off, data := random(300_000), strings.Repeat(fmt.Sprintf("<%d>", i), random(20_000)+1)
			w.writes(f, data, int64(off))
			grow(off + len(data))
			copy(model[off:], data)
		}
		if i%10 == 9 {
			w.reads(f, string(model))
		}
	}
	w.has("f", string(model))
}
