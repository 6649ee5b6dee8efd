package edit_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/edit"
)

func change(old, new string) edit.Edit { return edit.Edit{Old: []byte(old), New: []byte(new)} }
func all(old, new string) edit.Edit {
	return edit.Edit{Old: []byte(old), New: []byte(new), All: true}
}
func linesOf(first, count int, new string) edit.Edit {
	return edit.Edit{ByLines: true, Lines: edit.Range{First: first, Count: count}, New: []byte(new)}
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		content string
		edits   []edit.Edit
		want    string // the content, or the error
		changed string
	}{
		{"a\nb\nc\n", []edit.Edit{change("b", "B")}, "a\nB\nc\n", "[{2 1}]"},
		{"a\nb\nc\n", []edit.Edit{change("b\n", "")}, "a\nc\n", "[{2 0}]"},
		{"a\nb\nc\n", []edit.Edit{change("a\n", "a\nx\ny\n")}, "a\nx\ny\nb\nc\n", "[{2 2}]"},
		{"a", []edit.Edit{change("a", "b")}, "b", "[{1 1}]"},
		{"a b a", []edit.Edit{all("a", "xyz")}, "xyz b xyz", "[{1 1}]"},
		{"aaaa", []edit.Edit{all("aa", "b")}, "bb", "[{1 1}]"},
		{"a b", []edit.Edit{change("a", "b"), change("b b", "c")}, "c", "[{1 1}]"},
		{"1\n2\n3\n4\n5\n", []edit.Edit{change("5", "five"), change("1", "one")}, "one\n2\n3\n4\nfive\n", "[{1 1} {5 1}]"},
		// Line endings.
		{"a\r\nb\r\nc\r\n", []edit.Edit{change("a\nb\n", "a\nx\nb\n")}, "a\r\nx\r\nb\r\nc\r\n", "[{2 1}]"},
		{"a\r\nb\nc\r\n", []edit.Edit{change("a\nb\nc", "A\nb\nC")}, "A\r\nb\r\nC\r\n", "[{1 3}]"},
		{"a\r\nb\nc\r\n", []edit.Edit{change("a\nb\nc", "A\nb\nc")}, "A\r\nb\nc\r\n", "[{1 1}]"},
		{"a\r\nb", []edit.Edit{change("b", "b\nc")}, "a\r\nb\r\nc", "[{2 2}]"},
		{"a\nb\r\n", []edit.Edit{change("a", "x\ny")}, "x\ny\nb\r\n", "[{1 2}]"},
		{"bar\r\nfoo", []edit.Edit{change("\nfoo", "\nbaz")}, "bar\r\nbaz", "[{2 1}]"},
		{"a\r\nb\r\n", []edit.Edit{change("a\r\n", "x\r\ny\n")}, "x\r\ny\r\nb\r\n", "[{1 2}]"},
		{"a\r\nb\r\n", []edit.Edit{change("a\r\n", "a\n")}, "invalid: it changes nothing: what it writes is there already; LF stands for the line ending of that place, so an edit does not change CRLF to LF; write the whole file for that", ""},
		{"a\nb\r\nc\n", []edit.Edit{all("b\n", "q\n")}, "a\nq\r\nc\n", "[{2 1}]"},
		{"\xef\xbb\xbfcaf\xe9\r\nth\xe9", []edit.Edit{change("th", "the\n")}, "\xef\xbb\xbfcaf\xe9\r\nthe\r\n\xe9", "[{2 2}]"},
		// Lines.
		{"a\nb\nc\n", []edit.Edit{linesOf(2, 1, "x")}, "a\nx\nc\n", "[{2 1}]"},
		{"a\r\nb\r\nc\r\n", []edit.Edit{linesOf(2, 1, "x\ny\n")}, "a\r\nx\r\ny\r\nc\r\n", "[{2 2}]"},
		{"a\nb\nc", []edit.Edit{linesOf(3, 1, "x\n")}, "a\nb\nx", "[{3 1}]"},
		{"a\nb\nc", []edit.Edit{linesOf(2, 2, "")}, "a\n", "[{2 0}]"},
		{"a\nb\n", []edit.Edit{linesOf(2, 0, "x")}, "a\nx\nb\n", "[{2 1}]"},
		{"a\nb\n", []edit.Edit{linesOf(3, 0, "x")}, "a\nb\nx\n", "[{3 1}]"},
		{"a\r\nb", []edit.Edit{linesOf(3, 0, "x\n")}, "a\r\nb\r\nx", "[{2 2}]"},
		{"", []edit.Edit{linesOf(1, 0, "x\n")}, "x\n", "[{1 1}]"},
		{"a\nb\nc\n", []edit.Edit{linesOf(2, 1, "\n")}, "a\n\nc\n", "[{2 1}]"},
		{"a\nb\nc\nd\n", []edit.Edit{linesOf(1, 1, "x\ny\n"), linesOf(3, 1, "z")}, "x\ny\nb\nz\nd\n", "[{1 2} {4 1}]"},
		{"a\nb\nc\n", []edit.Edit{linesOf(1, 2, "x"), linesOf(2, 1, "z")}, "invalid: edit 2 of 2: an edit before it changes some of these lines already; make the two one edit", ""},
		{"a\nb\n", []edit.Edit{linesOf(3, 1, "x")}, "invalid: there is no line 3; the file has 2", ""},
		{"a\nb\n", []edit.Edit{linesOf(2, 5, "x")}, "invalid: there is no line 6; the file has 2", ""},
		{"a\nb\n", []edit.Edit{linesOf(0, 1, "x")}, "invalid: there is no line 0; the file has 2", ""},
		{"a\nb\n", []edit.Edit{linesOf(9, 0, "x")}, "invalid: there is no line 9; the file has 2", ""},
		{"a\nb\n", []edit.Edit{linesOf(2, 1, "b")}, "invalid: it changes nothing: what it writes is there already", ""},
		// Refusals.
		{"a\n", nil, "invalid: there are no edits", ""},
		{"a\n", []edit.Edit{change("", "x")}, "invalid: old is empty; name the text to replace, or edit by lines", ""},
		{"a\n", []edit.Edit{change("a", "a")}, "invalid: it changes nothing: what it writes is there already", ""},
		{"a\n", []edit.Edit{change("a", "b"), change("b", "a")}, "invalid: the edits together change nothing", ""},
		{"x\na\nb a\n", []edit.Edit{change("x", "y"), change("a", "c")}, "conflict: edit 2 of 2: old matches 2 times, on lines 2, 3; make it longer so that it matches once, or replace all", ""},
		{"aaa", []edit.Edit{change("aa", "b")}, "conflict: old matches 2 times, on lines 1; make it longer so that it matches once, or replace all", ""},
		{"if a {\n\treturn b\n}\n", []edit.Edit{change("if a {\n    return b", "if c {\n    return b")}, `conflict: old matches 0 times; it differs in spaces, tabs or indentation: closest is line 1: "if a {"`, ""},
		{"say “no”\n", []edit.Edit{change(`say "no"`, `say "yes"`)}, `conflict: old matches 0 times; it differs in quotes or dashes; the file or old has curly quotes, long dashes or no-break spaces where the other has plain ones: closest is line 1: "say “no”"`, ""},
		{"a\nnew text\n", []edit.Edit{change("old text", "new text")}, "conflict: old matches 0 times; new is on line 2 already, so the edit may have been made before", ""},
		{"a\r\nb\nc\n", []edit.Edit{change("a\nb\r\nc", "x")}, "conflict: old matches 0 times; it differs in line endings alone; the file or old has a CR that the other has not: closest is line 1: \"a\"", ""},
		{"package x\n\nfunc Handle(w Writer) {\n", []edit.Edit{change("func Handler(w Writer)", "y")}, `conflict: old matches 0 times; the closest to its line 1 ("func Handler(w Writer)") are line 3: "func Handle(w Writer) {"; read the file again`, ""},
		{"a\n", []edit.Edit{change("nothing like it", "y")}, "conflict: old matches 0 times; nothing like it is in the file; read the file again", ""},
	} {
		r, err := edit.Apply([]byte(c.content), c.edits, nil)
		got, changed := fmt.Sprint(err), ""
		if err == nil {
			got, changed = string(r.Content), fmt.Sprint(r.Changed)
			checkHunks(t, []byte(c.content), r)
		}
		if got != c.want || changed != c.changed {
			t.Errorf("%q, %+v:\n%q %s, want\n%q %s", c.content, c.edits, got, changed, c.want, c.changed)
		}
	}
}

// checkHunks applies the hunks of r to old.
func checkHunks(t *testing.T, old []byte, r *edit.Result) {
	t.Helper()
	hunks, cut := r.Hunks(64 << 20)
	rest, out, lines := old, []byte{}, 1
	take := func(n int) []byte {
		at := 0
		for range n {
			at += bytes.IndexByte(rest[at:], '\n') + 1
			lines++
		}
		b := rest[:at]
		rest = rest[at:]
		return b
	}
	all := bytes.SplitAfter(hunks, []byte("\n"))
	for i, line := range all {
		if len(line) == 0 {
			continue
		}
		text := line[1:]
		if i+1 < len(all) && bytes.HasPrefix(all[i+1], []byte("\\")) {
			text = text[:len(text)-1]
		}
		switch line[0] {
		case '@':
			var a, n, b, m int
			if _, err := fmt.Sscanf(string(line), "@@ -%d,%d +%d,%d @@", &a, &n, &b, &m); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				a++
			}
			out = append(out, take(a-lines)...)
		case ' ', '-':
			if !bytes.HasPrefix(rest, text) {
				t.Fatalf("the difference does not fit:\n%s\nwhere %.80q is", hunks, rest)
			}
			rest = rest[len(text):]
			lines++
			if line[0] == ' ' {
				out = append(out, text...)
			}
		case '+':
			out = append(out, text...)
		}
	}
	if out = append(out, rest...); cut || !bytes.Equal(out, r.Content) {
		t.Fatalf("the difference makes\n%.2000q of\n%.2000q, want\n%.2000q:\n%.2000s", out, old, r.Content, hunks)
	}
}

// model makes one edit as its documentation says, byte by byte.
func model(content []byte, at, n int, text []byte) []byte {
	return bytes.Join([][]byte{content[:at], text, content[at+n:]}, nil)
}

// TestNoByteLost edits at random, and compares every byte.
func TestNoByteLost(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	kinds := map[string]func() []byte{}
	for _, ending := range []string{"\n", "\r\n", "mixed", "\r"} {
		for _, alphabet := range []string{"ab ", "aé–\"“\t", "a\xe9\xff\x80", "a\x00\x01", "x"} {
			for _, bom := range []string{"", "\xef\xbb\xbf"} {
				for _, final := range []bool{true, false} {
					kinds[fmt.Sprintf("%q %q %q %v", ending, alphabet, bom, final)] = func() []byte {
						b := []byte(bom)
						for range r.IntN(30) {
							for range r.IntN(12) {
								b = append(b, alphabet[r.IntN(len(alphabet))])
							}
							e := ending
							if e == "mixed" {
								e = []string{"\n", "\r\n"}[r.IntN(2)]
							}
							b = append(b, e...)
						}
						if !final {
							b = append(b, "end"...)
						}
						return b
					}
				}
			}
		}
	}
	attempts, made := 0, 0
	for name, make := range kinds {
		for range 60 {
			attempts++
			content := make()
			kept := bytes.Clone(content)
			want := content
			var edits []edit.Edit
			for range 1 + r.IntN(4) { // each is in the content that the ones before have left
				if len(want) == 0 {
					break
				}
				at := r.IntN(len(want))
				n := 1 + r.IntN(min(20, len(want)-at))
				old := want[at : at+n]
				text := []byte(fmt.Sprintf("<%d>", r.IntN(10)))
				if bytes.Count(want, old) != 1 || bytes.Contains(old, []byte("\n")) && (old[0] == '\n' || old[n-1] == '\r') {
					continue
				}
				e := edit.Edit{Old: bytes.Clone(old), New: text}
				if !bytes.Contains(want, []byte("\r\n")) && r.IntN(2) == 0 {
					e.New = append(e.New, "\n\n"...)
				} else if i := bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")); bytes.Count(bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n")), i) == 1 && len(i) > 0 && i[len(i)-1] != '\r' {
					e.Old = i // as somebody would write it who does not see the CR
				}
				edits, want = append(edits, e), model(want, at, n, e.New)
			}
			got, err := edit.Apply(content, edits, nil)
			if !bytes.Equal(content, kept) {
				t.Fatalf("%s: what was given has changed", name)
			}
			if err != nil {
				if code := vfs.CodeOf(err); code != vfs.Conflict && code != vfs.Invalid {
					t.Fatalf("%s: %q, %v: %v", name, content, edits, err)
				}
				continue
			}
			made++
			if !bytes.Equal(got.Content, want) {
				t.Fatalf("%s: %q, %v:\n%q, want\n%q", name, content, edits, got.Content, want)
			}
			checkHunks(t, content, got)
		}
	}
	t.Logf("edit: %d kinds of file, %d attempts, 0 bytes lost", len(kinds), attempts)
	if made < attempts/2 {
		t.Errorf("only %d of %d were made", made, attempts)
	}
}

// Hostile input takes bounded time, and its refusal is short.
func TestHostile(t *testing.T) {
	const size = 1 << 20
	largest := bytes.Repeat([]byte("a"), edit.MaxSize)
	as := largest[:size]
	crs := bytes.Repeat([]byte("\r\n"), size/2)
	thue := make([]byte, size)
	for i := range thue {
		thue[i] = 'a'
		for b := i; b > 0; b &= b - 1 {
			thue[i] ^= 'a' ^ 'b'
		}
	}
	long := func(n int, end string) []byte { return append(bytes.Repeat([]byte("a"), n), end...) }
	for name, c := range map[string]struct {
		content []byte
		edits   []edit.Edit
	}{
		"a long old that nearly matches": {as, []edit.Edit{{Old: long(size/2, "b"), New: []byte("x")}}},
		"one that matches everywhere":    {as, []edit.Edit{{Old: long(size/2, ""), New: []byte("x")}}},
		"one byte, all":                  {as, []edit.Edit{{Old: []byte("a"), New: []byte("b"), All: true}}},
		"a fractal":                      {thue, []edit.Edit{{Old: thue[size/4 : size/2], New: []byte("x")}}},
		"line ends alone":                {crs, []edit.Edit{{Old: bytes.Repeat([]byte("\n"), size/4), New: []byte("x")}}},
		"line ends, all":                 {crs, []edit.Edit{{Old: []byte("\n\n\n"), New: []byte("\nx\n\n"), All: true}}},
		"a long line in it, all":         {append([]byte("\r\n"), as[2:]...), []edit.Edit{{Old: long(100, ""), New: []byte("x\ny"), All: true}}},
		"one line that is not there":     {as, []edit.Edit{{Old: bytes.Repeat([]byte("q\n"), size/4), New: []byte("x")}}},
	} {
		begun := time.Now()
		r, err := edit.Apply(c.content, c.edits, nil)
		if err == nil {
			r.Hunks(256 << 10)
		}
		if d := time.Since(begun); d > 20*time.Second {
			t.Errorf("%s took %v", name, d)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: %d bytes of error", name, len(err.Error()))
		}
	}
	if _, err := edit.Apply(append(largest, 'a'), []edit.Edit{change("b", "c")}, nil); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("too large: %v", err)
	}
	if _, err := edit.Apply([]byte("ab"), []edit.Edit{{Old: []byte("a"), New: largest}}, nil); vfs.CodeOf(err) != vfs.TooLarge {
		t.Errorf("too large afterwards: %v", err)
	}
	if _, err := edit.Apply([]byte("a"), make([]edit.Edit, edit.MaxEdits+1), nil); vfs.CodeOf(err) != vfs.Limit {
		t.Errorf("too many: %v", err)
	}
	if _, err := edit.Apply(as, []edit.Edit{change("a", "b")}, nil); err == nil || !strings.Contains(err.Error(), "more than 999 times") {
		t.Errorf("%v", err)
	}
}
