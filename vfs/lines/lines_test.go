package lines_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/lines"
)

func TestScan(t *testing.T) {
	long := strings.Repeat("é", lines.MaxLine)
	for _, c := range []struct {
		content string
		q       lines.Query
		data    string
		first   int64
		next    int64
		more    bool
		clipped string
	}{
		{"", lines.Query{}, "", 1, 1, false, "[]"},
		{"", lines.Query{Last: true}, "", 1, 1, false, "[]"},
		{"\n", lines.Query{}, "\n", 1, 2, false, "[]"},
		{"a\nb\nc", lines.Query{}, "a\nb\nc", 1, 4, false, "[]"},
		{"a\nb\nc", lines.Query{From: 2, Count: 1}, "b\n", 2, 3, true, "[]"},
		{"a\nb\nc\n", lines.Query{From: 2, Count: 2}, "b\nc\n", 2, 4, false, "[]"},
		{"a\nb\nc\n", lines.Query{From: 9, Count: 2}, "", 4, 4, false, "[]"},
		{"a\r\nb\xff\r\nc", lines.Query{From: 2, Count: 5}, "b\xff\r\nc", 2, 4, false, "[]"},
		{"a\nb\nc\n", lines.Query{Count: 2, Last: true}, "b\nc\n", 2, 4, false, "[]"},
		{"a\nb\nc", lines.Query{Count: 1, Last: true}, "c", 3, 4, false, "[]"},
		{"a\nb\nc", lines.Query{Count: 9, Last: true}, "a\nb\nc", 1, 4, false, "[]"},
		{"\n\n\n", lines.Query{Count: 2, Last: true}, "\n\n", 2, 4, false, "[]"},
		{"x\n" + long + "\r\ny\n", lines.Query{From: 2, Count: 1}, long[:lines.MaxLine] + "\r\n", 2, 3, true, "[{0 2 4000}]"},
		{"x\na" + long + "\ny\n", lines.Query{From: 2}, "a" + long[:lines.MaxLine-2] + "\ny\n", 2, 4, false, "[{0 2 4001}]"},
		{"x\na" + long, lines.Query{Last: true, Count: 1}, "a" + long[:lines.MaxLine-2], 2, 3, false, "[{0 2 4001}]"},
		{strings.Repeat("z", lines.MaxLine) + "\r\n", lines.Query{}, strings.Repeat("z", lines.MaxLine) + "\r\n", 1, 2, false, "[]"},
	} {
		w, err := lines.Scan(t.Context(), bytes.NewReader([]byte(c.content)), c.q)
		if err != nil || string(w.Data) != c.data || w.First != c.first || w.Next != c.next || w.More != c.more || fmt.Sprint(w.Clipped) != c.clipped {
			t.Errorf("%.40q, %+v: %.80q, first %d, next %d, more %v, clipped %v, %v; want %.80q, %d, %d, %v, %v", c.content, c.q,
				w.Data, w.First, w.Next, w.More, w.Clipped, err, c.data, c.first, c.next, c.more, c.clipped)
		}
		if w.Version != sha256.Sum256([]byte(c.content)) {
			t.Errorf("%.40q, %+v: another version than that of the content", c.content, c.q)
		}
	}
}

// The windows of a content, one after the other, are the content, and so are the last lines.
func TestWindowsAreTheContent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		var b strings.Builder
		for range r.IntN(3000) {
			b.WriteString(strings.Repeat("x", r.IntN(1+r.IntN(400))))
			b.WriteString([]string{"\n", "\n", "\r\n", "\r", ""}[r.IntN(5)])
		}
		content := b.String()
		if longest(content) > lines.MaxLine {
			continue
		}
		var all []byte
		for q := (lines.Query{Count: 1 + r.IntN(2000)}); ; {
			w, err := lines.Scan(t.Context(), strings.NewReader(content), q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, w.Data...)
			if len(w.Data) > lines.MaxBytes || w.Total != int64(count(content)) {
				t.Fatalf("%d bytes, %d lines; the content has %d", len(w.Data), w.Total, count(content))
			}
			if q.From = w.Next; !w.More {
				break
			}
		}
		if string(all) != content {
			t.Fatalf("the windows of %d bytes are %d bytes", len(content), len(all))
		}
		n := 1 + r.IntN(50)
		w, err := lines.Scan(t.Context(), strings.NewReader(content), lines.Query{Count: n, Last: true})
		if err != nil || !strings.HasSuffix(content, string(w.Data)) || w.Count != min(n, count(content)) || w.Next != int64(count(content))+1 {
			t.Fatalf("the last %d lines of %d: %d, next %d, %v", n, count(content), w.Count, w.Next, err)
		}
	}
}

func count(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func longest(s string) (n int) {
	for l := range strings.SplitSeq(s, "\n") {
		n = max(n, len(l))
	}
	return n
}

// The last lines are the last, even where not all that are asked for fit.
func TestLastLinesThatDoNotFit(t *testing.T) {
	line := strings.Repeat("x", 1000) + "\n"
	content := "first\n" + strings.Repeat(line, 2000) + "last\n"
	w, err := lines.Scan(t.Context(), strings.NewReader(content), lines.Query{Count: lines.MaxCount, Last: true})
	if err != nil || !strings.HasSuffix(content, string(w.Data)) || len(w.Data) < lines.MaxBytes-len(line) || len(w.Data) > lines.MaxBytes || w.First != 2003-int64(w.Count) || w.Next != 2003 {
		t.Errorf("%d lines in %d bytes, first %d, next %d, %v", w.Count, len(w.Data), w.First, w.Next, err)
	}
}

// A file too large for a version is read no further than needed.
func TestHugeFile(t *testing.T) {
	h := &huge{size: 50 << 30}
	w, err := lines.Scan(t.Context(), h, lines.Query{From: 3, Count: 2})
	if err != nil || w.Count != 2 || w.First != 3 || w.Next != 5 || !w.More || !w.Version.IsZero() || w.Total != 0 {
		t.Errorf("from 3: %+v, %v", w, err)
	}
	w, err = lines.Scan(t.Context(), h, lines.Query{Count: 3, Last: true})
	if err != nil || w.Count != 3 || w.First != 0 || w.Next != 0 || w.More {
		t.Errorf("the last: %+v, %v", w, err)
	}
	if h.read > 4<<20 {
		t.Errorf("%d bytes were read", h.read)
	}
	if _, err := lines.Scan(t.Context(), &hollow{}, lines.Query{From: 2}); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("the second line after an endless one: %v, want tooLarge", err)
	}
	if _, err := lines.Scan(t.Context(), &huge{size: 50 << 30, flat: true}, lines.Query{Count: 1, Last: true}); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("the last of one endless line: %v, want tooLarge", err)
	}
}

// hollow is a line without an end, which costs nothing to read.
type hollow struct{}

func (hollow) Size() int64                           { return 1 << 60 }
func (hollow) ReadAt(p []byte, _ int64) (int, error) { return len(p), nil }

// huge is lines of 100 bytes, or one line.
type huge struct {
	size, read int64
	flat       bool
}

func (h *huge) Size() int64 { return h.size }

func (h *huge) ReadAt(p []byte, off int64) (int, error) {
	h.read += int64(len(p))
	for i := range p {
		if p[i] = 'x'; !h.flat && (off+int64(i))%100 == 99 {
			p[i] = '\n'
		}
	}
	return len(p), nil
}
