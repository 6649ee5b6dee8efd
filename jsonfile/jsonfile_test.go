package jsonfile

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// odd has what a change must not touch: a mark, both line endings, tabs, space in odd places,
// no line end at the end, a name that is there twice, escapes, numbers that no float64 holds.
const odd = byteOrderMark + "{\r\n\t\"a\" : [1 ,2,\n 3.140000000000000000001 ],\r\n\t\"b\":{\"x\":1e400,\"x\":2},\n\n\t\"\\u0063\": \"\\u00e9\\/\" ,\r\n\t\"d\": {}\r\n}  "

func TestGet(t *testing.T) {
	for _, c := range []struct{ doc, pointer, want string }{
		{" null\n", "", "null"},
		{odd, "/a", "[1 ,2,\n 3.140000000000000000001 ]"},
		{odd, "/a/2", "3.140000000000000000001"},
		{odd, "/b", `{"x":1e400,"x":2}`},
		{odd, "/c", `"\u00e9\/"`},
		{odd, "/d", "{}"},
		{`{"":{"":1}}`, "//", "1"},
		{`{"a/b":{"m~n":{"~1":1}}}`, "/a~1b/m~0n/~01", "1"},
		{`{"0":{"-":1}}`, "/0/-", "1"},
		{`[[],[[7]]]`, "/1/0/0", "7"},
		{`{"a":1,"b":{"a":2}}`, "/b/a", "2"},
	} {
		value, err := Get([]byte(c.doc), c.pointer)
		check.OK(t, err)
		if string(value) != c.want {
			t.Errorf("%q of %q is %q, want %q", c.pointer, c.doc, value, c.want)
		}
	}
}

func TestSet(t *testing.T) {
	pretty := "{\n  \"a\": 1,\n\n  \"o\": {},\n  \"l\": [],\n  \"s\": {\n    \"t\": 1\n  }\n}\n"
	for _, c := range []struct{ doc, pointer, value, want string }{
		{" 1\n", "", " [2] ", " [2]\n"},
		{odd, "/a/1", "[2]", strings.Replace(odd, ",2,", ",[2],", 1)},
		{odd, "/c", `""`, strings.Replace(odd, `"\u00e9\/"`, `""`, 1)},
		{odd, "/e", "0", strings.Replace(odd, "{}\r\n}", "{},\r\n\t\"e\": 0\r\n}", 1)},
		{odd, "/d/e", "0", strings.Replace(odd, "{}", "{\r\n\t\t\"e\": 0\r\n\t}", 1)},
		{odd, "/a/-", "4", strings.Replace(odd, "001 ]", "001,\n 4 ]", 1)},

		{`{}`, "/a", "1", `{"a": 1}`},
		{`{ }`, "/a", "1", `{ "a": 1 }`},
		{"{\n}\n", "/a", "1", "{\n  \"a\": 1\n}\n"},
		{"{\r\n}", "/a", "1", "{\r\n  \"a\": 1\r\n}"},
		{`[]`, "/-", "1", `[1]`},
		{`[1]`, "/-", "2", `[1, 2]`},
		{`[1,2]`, "/-", "3", `[1,2,3]`},
		{`[1, 2]`, "/-", "3", `[1, 2, 3]`},
		{`{"a":1}`, "/b", "2", `{"a":1,"b":2}`},
		{`{"a": 1}`, "/b", "2", `{"a": 1, "b": 2}`},
		{`{ "a": 1 }`, "/b", "2", `{ "a": 1, "b": 2 }`},
		{`{"a":[1]}`, "/a/-", "2", `{"a":[1,2]}`},
		{`{"a":{}}`, "/a/b", "2", `{"a":{"b":2}}`},
		{"{ \"a\": 1\n, \"b\": 2\n}", "/c", "3", "{ \"a\": 1\n, \"b\": 2\n, \"c\": 3\n}"},
		{"{ \"a\": 1\n, \"b\": {}\n}", "/b/c", "3", "{ \"a\": 1\n, \"b\": {\n    \"c\": 3\n  }\n}"},
		{"[\n  1,\n  2\n]", "/-", "3", "[\n  1,\n  2,\n  3\n]"},
		{"[\n\t[\n\t]\n]", "/0/-", "3", "[\n\t[\n\t\t3\n\t]\n]"},
		{pretty, "/b", "2", strings.Replace(pretty, "  }\n}", "  },\n  \"b\": 2\n}", 1)},
		{pretty, "/s/b", "2", strings.Replace(pretty, "\"t\": 1\n", "\"t\": 1,\n    \"b\": 2\n", 1)},
		{pretty, "/o/b", "2", strings.Replace(pretty, "{},", "{\n    \"b\": 2\n  },", 1)},
		{pretty, "/l/-", "2", strings.Replace(pretty, "[]", "[\n    2\n  ]", 1)},
		{"{\n  \"a\": 1,\n\n  \"b\": 2\n}", "/c", "3", "{\n  \"a\": 1,\n\n  \"b\": 2,\n  \"c\": 3\n}"},
		{`{}`, "/a~1\"\n", "1", `{"a/\"\n": 1}`},
		{`{}`, "/a", "{\n \"x\": [ ] }", "{\"a\": {\n \"x\": [ ] }}"},
	} {
		got, err := Set([]byte(c.doc), c.pointer, []byte(c.value))
		check.OK(t, err)
		if string(got) != c.want {
			t.Errorf("%q, %s = %s\n is  %q\nwant %q", c.doc, c.pointer, c.value, got, c.want)
		}
	}
}

func TestRemove(t *testing.T) {
	for _, c := range []struct{ doc, pointer, want string }{
		{odd, "/a/0", strings.Replace(odd, "[1 ,2", "[2", 1)},
		{odd, "/a/1", strings.Replace(odd, " ,2,", ",", 1)},
		{odd, "/a/2", strings.Replace(odd, ",\n 3.140000000000000000001", "", 1)},
		{odd, "/b", strings.Replace(odd, ",\r\n\t\"b\":{\"x\":1e400,\"x\":2}", "", 1)},
		{"{ \"a\": 1 }\n", "/a", "{}\n"},
		{"[\n  1,\n  2\n]", "/0", "[\n  2\n]"},
		{"[\n  1,\n  2\n]", "/1", "[\n  1\n]"},
	} {
		got, err := Remove([]byte(c.doc), c.pointer)
		check.OK(t, err)
		if string(got) != c.want {
			t.Errorf("%q without %s\n is  %q\nwant %q", c.doc, c.pointer, got, c.want)
		}
	}
	_, err := Remove([]byte("{}"), "")
	check.Is(t, "the whole document", err, vfs.Invalid)
}

// What is refused, and what the message says.
func TestRefused(t *testing.T) {
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	for _, c := range []struct {
		doc, pointer, value string // without a value: Get
		code                vfs.Code
		says                string
	}{
		{`{"a": {"b": 1}}`, "/a/c", "", vfs.NotFound, `nothing is at "/a/c"`},
		{`{"a": {"b": 1}}`, "/x/y/z", "1", vfs.NotFound, `nothing is at "/x"`},
		{`{"a": {"b": 1}}`, "/a/x/z", "1", vfs.NotFound, `nothing is at "/a/x"`},
		{`{"a": {"b": 1}}`, "/a/b/c", "1", vfs.NotFound, `"/a/b" is a number, which has nothing in it`},
		{`"text"`, "/a", "1", vfs.NotFound, `"" is a string`},
		{`[1, 2]`, "/2", "1", vfs.NotFound, `nothing is at "/2"; the array has 2 elements`},
		{`[1, 2]`, "/99999999999999999999", "", vfs.NotFound, `the array has 2 elements`},
		{`[1, 2]`, "/-", "", vfs.NotFound, `nothing is at "/-"`},
		{`[1, 2]`, "/-/a", "1", vfs.NotFound, `nothing is at "/-"`},
		{`[1, 2]`, "/01", "", vfs.Invalid, `"" is an array; name an element by its number`},
		{`{"l": [1]}`, "/l/x", "1", vfs.Invalid, `"/l" is an array`},
		{`{"a": 1}`, "a", "", vfs.Invalid, `does not begin with "/"`},
		{`{"a": 1}`, "/a~", "", vfs.Invalid, `a "~" stands alone`},
		{`{"a": 1}`, "/~2", "", vfs.Invalid, `a "~" stands alone`},
		{`{"a": 1}`, "/\xff", "1", vfs.Invalid, "not UTF-8"},
		{`{"a": 1}`, "/" + strings.Repeat("a", maxPointer), "1", vfs.Invalid, "longer than"},
		{"{\"a\": 1,\n \"b\": 2, \"\\u0061\": 3}", "/a", "", vfs.Invalid, `"/a" is there twice, on lines 1 and 2`},
		{`{"a": {"b": 1}, "a": {"c": 1}}`, "/a/c", "1", vfs.Invalid, `"/a" is there twice`},

		{"", "", "", vfs.Invalid, "the document is empty"},
		{byteOrderMark + "\n", "/a", "1", vfs.Invalid, "the document is empty"},
		{"{\n  \"é\": 1,\n}", "/a", "1", vfs.Invalid, "line 2, column 9: nothing follows this comma"},
		{"{\r\n  \"é\": 1 x}", "/é", "", vfs.Invalid, "line 2, column 10: "},
		{"{\n  // why\n}", "", "", vfs.Invalid, "line 2, column 3: "},
		{"{\n  // why\n}", "", "", vfs.Invalid, "JSON has no comments"},
		{"{} {}", "", "", vfs.Invalid, "line 1, column 4: a second value begins"},
		{"{} x", "", "", vfs.Invalid, "line 1, column 4: "},
		{`{"a": `, "/a", "", vfs.Invalid, "line 1, column 7: it ends too early"},
		{`["a`, "/0", "", vfs.Invalid, "it ends too early"},
		{"[1,\n\"\xe9\"]", "/0", "", vfs.Invalid, "line 2, column 2: "},
		{`["\ud800"]`, "/0", "", vfs.Invalid, "line 1, column 3: "},
		{byteOrderMark + byteOrderMark + "1", "", "", vfs.Invalid, "line 1, column 1: "},
		{"\xff\xfe1\x00", "", "", vfs.Invalid, "line 1, column 1: "},
		{`{"a": tru}`, "/a", "", vfs.Invalid, "line 1, column 10: "},

		{`{}`, "/a", "nonsense", vfs.Invalid, "the value is not valid JSON: line 1, column 2"},
		{`{}`, "/a", " ", vfs.Invalid, "the value is empty"},
		{`{}`, "/a", "1 2", vfs.Invalid, "the value is not valid JSON: line 1, column 3"},
		{`{}`, "/a", "1}, {", vfs.Invalid, "the value is not valid JSON"},
		{`{}`, "/a", "{\"x\": 1,\n\"x\": 2}", vfs.Invalid, `the value is not valid JSON: line 2, column 1: the name "x" is there twice`},
		{`{}`, "/a", `"` + strings.Repeat("a", MaxBytes) + `"`, vfs.TooLarge, "the value is"},
		{`{}`, "/a", `"` + strings.Repeat("a", MaxBytes-5) + `"`, vfs.TooLarge, "the document would be"},
		{`"` + strings.Repeat("a", MaxBytes) + `"`, "", "", vfs.TooLarge, "the document is"},
		{deep, strings.Repeat("/0", 8999) + "/-", deep, vfs.Invalid, "the changed document is not valid JSON"},
		{strings.Repeat("[", 1<<20), "", "", vfs.Invalid, "not valid JSON"},
	} {
		var err error
		if c.value == "" {
			_, err = Get([]byte(c.doc), c.pointer)
		} else {
			_, err = Set([]byte(c.doc), c.pointer, []byte(c.value))
		}
		if vfs.CodeOf(err) != c.code || !strings.Contains(vfs.Message(err), c.says) {
			t.Errorf("%.40q, %.40q = %.40q: %.300v, want %v: %s", c.doc, c.pointer, c.value, err, c.code, c.says)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%.40q, %.40q: the message has %d bytes", c.doc, c.pointer, len(err.Error()))
		}
	}
}

func TestText(t *testing.T) {
	quoted, err := Quote("é\n\"\x00")
	check.OK(t, err)
	text, err := Text(quoted)
	check.OK(t, err)
	if text != "é\n\"\x00" {
		t.Errorf("%s is %q", quoted, text)
	}
	_, err = Quote("\xff")
	check.Is(t, "what is not UTF-8", err, vfs.Invalid)
	_, err = Text([]byte("1"))
	check.Is(t, "a number", err, vfs.Invalid)
}

// After Set the document parses, Get returns the value, and what is neither the value nor the
// one piece that was added is as before. Remove takes back what was added.
func FuzzSet(f *testing.F) {
	for _, doc := range []string{odd, "{}", "[1, [2, {\"a\": []}]]", "{\n  \"a\": {\"b\": 1}\n}\n", "{\"a\":{ }}", "{\"a\":1,\"a\":2}", "{ \"a\": 1\n, \"b\": {}\n}"} {
		for _, pointer := range []string{"", "/a", "/a/b", "/-", "/a/-", "/1/1/a/-", "/~0~1", "/b/x"} {
			f.Add([]byte(doc), pointer, []byte(`{"x": [1, "\u00e9"]}`))
		}
	}
	f.Fuzz(func(t *testing.T, doc []byte, pointer string, value []byte) {
		before := bytes.Clone(doc)
		old, missing := Get(doc, pointer)
		got, err := Set(doc, pointer, value)
		if !bytes.Equal(doc, before) {
			t.Fatal("Set changed its argument")
		}
		if err != nil {
			switch vfs.CodeOf(err) {
			case vfs.Invalid, vfs.NotFound, vfs.TooLarge:
				return
			}
			t.Fatalf("%v is not an error of this package", err)
		}
		if !json.Valid(bytes.TrimPrefix(got, []byte(byteOrderMark))) {
			t.Fatalf("%q is not JSON", got)
		}
		value = bytes.Trim(value, whitespace)
		if missing == nil {
			at := cap(doc) - cap(old) // old is a part of doc
			want := string(doc[:at]) + string(value) + string(doc[at+len(old):])
			if string(got) != want {
				t.Fatalf("%q, %q = %q is %q", doc, pointer, value, got)
			}
		} else if !isInserted(doc, got) {
			t.Fatalf("%q, %q = %q is %q", doc, pointer, value, got)
		}
		if pointer = ofLast(doc, pointer); pointer == "" {
			return
		}
		now, err := Get(got, pointer)
		if err != nil || !bytes.Equal(now, value) {
			t.Fatalf("%q of %q is %q (%v), want %q", pointer, got, now, err, value)
		}
		without, err := Remove(got, pointer)
		if err != nil || !json.Valid(bytes.TrimPrefix(without, []byte(byteOrderMark))) {
			t.Fatalf("%q without %q is %q (%v)", got, pointer, without, err)
		}
		if missing != nil && !sameJSON(without, doc) {
			t.Fatalf("%q without %q is %q, and was %q", got, pointer, without, doc)
		}
	})
}

// isInserted reports whether got is doc with one piece more in it.
func isInserted(doc, got []byte) bool {
	same := 0
	for same < len(doc) && doc[same] == got[same] {
		same++
	}
	for at := same; at >= 0; at-- { // what was added may begin as what follows it
		if bytes.HasSuffix(got, doc[at:]) {
			return true
		}
	}
	return false
}

// ofLast returns pointer with the index that "-" has become at its end.
func ofLast(doc []byte, pointer string) string {
	parent, isNew := strings.CutSuffix(pointer, "/-")
	if !isNew {
		return pointer
	}
	value, err := Get(doc, parent)
	if err != nil || value[0] != '[' {
		return pointer
	}
	var all []json.RawMessage
	if json.Unmarshal(value, &all) != nil {
		return ""
	}
	return parent + "/" + strconv.Itoa(len(all))
}

func sameJSON(a, b []byte) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, bytes.TrimPrefix(a, []byte(byteOrderMark))) != nil || json.Compact(&y, bytes.TrimPrefix(b, []byte(byteOrderMark))) != nil {
		return false
	}
	return x.String() == y.String()
}
