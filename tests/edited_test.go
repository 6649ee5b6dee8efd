package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"capd/client"
	"capd/vfs"
	parts "capd/vfs/edit"
	edits "capd/vfs/editing"
)

// edited is a file that is edited at random, and what it has to hold.
type edited struct {
	*rand.Rand
	alphabet []string
	ending   string // "" is LF and CRLF at random
	bom      string
	size     int
	final    bool // the last line has an ending
}

// editedKinds returns the kinds of file by name: encodings, line endings, sizes, and whether the last line ends.
func editedKinds(r *rand.Rand) map[string]edited {
	kinds := map[string]edited{}
	for encoding, alphabet := range map[string][]string{
		"UTF-8":          strings.Split("ab cé–\"“\t😀", ""),
		"UTF-8 with BOM": strings.Split("ab cé\t", ""),
		"Latin-1":        {"a", "b", " ", "\xe9", "\xff", "\x80"},
		"UTF-16":         {"a\x00", "b\x00", "\xe9\x00", "=\xd8\x00\xde"},
		"binary":         {"a", "\x00", "\x01", "\x7f", "\xc3", "\xfe"},
		"one letter":     {"x"},
	} {
		for name, ending := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r", "mixed": ""} {
			for _, size := range []int{40, 3 << 10, 100 << 10, 1 << 20} {
				for _, final := range []bool{true, false} {
					k := edited{r, alphabet, ending, "", size, final}
					if encoding == "UTF-8 with BOM" {
						k.bom = "\xef\xbb\xbf"
					}
					kinds[fmt.Sprintf("%s, %s, %d bytes, final ending: %v", encoding, name, size, final)] = k
				}
			}
		}
	}
	return kinds
}

// content returns a content of the kind. Every line has a number, so that much of it is there once.
func (k edited) content() []byte {
	b := []byte(k.bom)
	for i := 0; len(b) < k.size; i++ {
		if len(k.alphabet) > 1 {
			b = fmt.Appendf(b, "%d:", i)
		}
		for range k.IntN(40) {
			b = append(b, k.alphabet[k.IntN(len(k.alphabet))]...)
		}
		e := k.ending
		if e == "" {
			e = []string{"\n", "\r\n"}[k.IntN(2)]
		}
		b = append(b, e...)
	}
	if !k.final {
		b = append(b, "end"...)
	}
	return b
}

// edit returns an edit at a random place of b, and what b is afterwards; nil if the edit cannot be made.
func (k edited) edit(b []byte) (e parts.Edit, want []byte) {
	text := fmt.Appendf(nil, "<%d>", k.Uint64()) // it is not there already
	if k.IntN(4) == 0 {                          // lines, each with its ending
		lines := bytes.SplitAfter(b, []byte("\n"))
		first := k.IntN(len(lines))
		count := 1 + k.IntN(min(3, len(lines)-first))
		last := lines[first+count-1]
		if len(last) == 0 { // after the last ending there is no line
			return k.edit(b)
		}
		ending := last[len(bytes.TrimSuffix(bytes.TrimSuffix(last, []byte("\n")), []byte("\r"))):]
		if !bytes.HasSuffix(last, []byte("\n")) {
			ending = nil
		}
		e = parts.Edit{ByLines: true, Lines: parts.Range{First: first + 1, Count: count}, New: text}
		made := slices.Concat(text, ending)
		return e, bytes.Join([][]byte{bytes.Join(lines[:first], nil), made, bytes.Join(lines[first+count:], nil)}, nil)
	}
	at := k.IntN(len(b))
	n := 1 + k.IntN(min(60, len(b)-at))
	old := b[at : at+n]
	if old[0] == '\n' || old[n-1] == '\r' { // half of a CRLF, perhaps
		return k.edit(b)
	}
	e = parts.Edit{Old: bytes.Clone(old), New: text}
	if k.IntN(2) == 0 {
		e.Old = bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")) // as somebody writes it who does not see the CR
	}
	if k.IntN(4) == 0 && !bytes.Contains(old, []byte("\n")) && bytes.Count(b, old) <= parts.MaxMatches {
		e.All = true
		if want = bytes.ReplaceAll(b, old, text); len(want) > parts.MaxSize {
			return k.edit(b) // such an edit is refused: the file would be too large to edit
		}
		return e, want
	}
	if places(b, e.Old) > 1 {
		return e, nil
	}
	return e, slices.Concat(b[:at], text, b[at+n:])
}

// places returns at how many places old is in b, 2 for more. An LF in old stands for CRLF too, unless old has a CRLF itself.
func places(b, old []byte) (n int) {
	crlf, lf := []byte("\r\n"), []byte("\n")
	if bytes.Contains(old, lf) && !bytes.Contains(old, crlf) {
		b = bytes.ReplaceAll(b, crlf, lf)
	}
	for n < 2 {
		at := bytes.Index(b, old)
		if at < 0 {
			break
		}
		n++
		b = b[at+1:]
	}
	return n
}

// Guests edit files at random, across encodings, line endings and sizes. Every byte that was not edited is what it was, and a
// refused edit leaves all of them.
func TestEditedNothingLost(t *testing.T) {
	t.Parallel()
	h := serveAt(newPlaceInMemory(t), exec.Command(capd(t)))
	d := dial(t, h.locator).Dir(t.Context()).SubDir("project")
	seed := rand.Uint64()
	kinds := editedKinds(rand.New(rand.NewPCG(seed, 1)))
	attempts, made := 0, 0
	for name, k := range kinds {
		b := k.content()
		v, err := d.Put(t.Context(), "edited", bytes.NewReader(b), vfs.If{})
		ok(t, err)
		f := d.OpenFile("edited")
		for range times(4, 40) {
			attempts++
			e, want := k.edit(b)
			r := edits.Request{Edits: []parts.Edit{e}}
			if e.ByLines {
				r.If.Is = v
			}
			done, err := f.Edit(t.Context(), r)
			if want == nil {
				is(t, name+": an edit of what is there more than once", err, "conflict")
				want = b
			} else if err != nil {
				t.Fatalf("%s: %+v: %v; the seed is %d", name, e, err, seed)
			} else {
				made++
				v = done.Version
			}
			got, now, err := f.ReadBytes(t.Context())
			ok(t, err)
			if now != v || !bytes.Equal(got, want) {
				t.Fatalf("%s: %+v made %d bytes of %d, want %d; the first difference is at %d; the seed is %d", name, e, len(got), len(b), len(want), firstDifference(got, want), seed)
			}
			b = want
		}
		f.Close()
	}
	if made < attempts/2 {
		t.Errorf("only %d of %d edits were made", made, attempts)
	}
	landed := editTogether(t, h, d)
	fmt.Printf("edit: %d kinds of file, %d attempts, 0 bytes lost; %d edits by 50 guests at once, all landed\n", len(kinds), attempts, landed)
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// editTogether lets 50 guests, each on its own connection, edit different lines of one file at once. It returns how many edits landed.
func editTogether(t *testing.T, h *hostProcess, d *client.Dir) (landed int) {
	t.Helper()
	const guests = 50
	rounds := times(4, 40)
	text := func(n int) []byte {
		b := []byte("\xef\xbb\xbf")
		for i := range guests {
			b = fmt.Appendf(b, "caf\xe9 %02d: %d.\r\n", i, n)
		}
		return append(b, "no ending"...)
	}
	_, err := d.Put(t.Context(), "together", bytes.NewReader(text(0)), vfs.If{})
	ok(t, err)
	ended := make(chan error)
	for i := range guests {
		f := dial(t, h.locator).Dir(t.Context()).SubDir("project").OpenFile("together")
		go func() {
			var err error
			for n := 0; n < rounds && err == nil; n++ {
				_, err = f.Edit(t.Context(), edits.Request{Edits: []parts.Edit{{Old: fmt.Appendf(nil, " %02d: %d.\n", i, n), New: fmt.Appendf(nil, " %02d: %d.\n", i, n+1)}}})
			}
			ended <- err
		}()
	}
	for range guests {
		if err := <-ended; err != nil {
			t.Errorf("one of the guests that edit at once: %v", err)
		}
	}
	got, _, err := d.OpenFile("together").ReadBytes(t.Context())
	if ok(t, err); !bytes.Equal(got, text(rounds)) {
		t.Fatalf("after all edits the file has %q", got)
	}
	return guests * rounds
}
