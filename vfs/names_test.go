package vfs_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"capd/vfs"
	"capd/vfs/vfstest/check"
)

func TestNames(t *testing.T) {
	long := strings.Repeat("n", vfs.MaxName)
	for _, c := range []struct {
		name      string
		have, new vfs.Code
	}{
		{"a", "", ""}, {".a", "", ""}, {"...", "", ""}, {"a b", "", ""}, {" ", "", ""}, {"%2e%2e", "", ""}, {"é", "", ""}, {"e\u0301", "", ""}, {"界", "", ""},
		{"a:b", "", ""}, {"*", "", ""}, {"a\u00a0b", "", ""}, {"😀", "", ""}, {long, "", ""}, {strings.Repeat("界", 85), "", ""},
		{"", vfs.Invalid, vfs.Invalid}, {".", vfs.Invalid, vfs.Invalid}, {"..", vfs.Invalid, vfs.Invalid}, {"/", vfs.Invalid, vfs.Invalid},
		{"a/b", vfs.Invalid, vfs.Invalid}, {"../a", vfs.Invalid, vfs.Invalid}, {"a\x00", vfs.Invalid, vfs.Invalid},
		{long + "n", vfs.Invalid, vfs.Invalid}, {strings.Repeat("界", 86), vfs.Invalid, vfs.Invalid},
		{"\xff", "", vfs.Invalid}, {"a\xc3", "", vfs.Invalid}, {`a\b`, "", vfs.Invalid}, {`..\x`, "", vfs.Invalid},
		{"a\nb", "", vfs.Invalid}, {"\x1b[2J", "", vfs.Invalid}, {"\x7f", "", vfs.Invalid}, {"\u0085", "", vfs.Invalid},
		{"\u202etxt.exe", "", vfs.Invalid}, {"\u2066", "", vfs.Invalid}, {"\u200b", "", vfs.Invalid}, {"a\u200d", "", vfs.Invalid}, {"\ufeffa", "", vfs.Invalid},
		{"\u2028", "", vfs.Invalid}, {"\u3164", "", vfs.Invalid}, {"\u00ad", "", vfs.Invalid}, {"\u034f", "", vfs.Invalid},
		{"a\U000e0041", "", vfs.Invalid}, {"a\ufe01", "", vfs.Invalid}, {"a\U000e0101", "", vfs.Invalid}, {"\u180e", "", vfs.Invalid},
	} {
		check.Is(t, vfs.Printable(c.name), vfs.CheckName(c.name), c.have)
		check.Is(t, vfs.Printable(c.name)+", new", vfs.CheckNewName(c.name), c.new)
	}
}

func TestSplitPath(t *testing.T) {
	for path, want := range map[string]vfs.Code{
		"a": "", "a/b": "", ".../a": "", strings.Repeat("a/", 127) + "a": "", strings.Repeat("a/", 128) + "a": vfs.Limit, strings.Repeat("a/", 5000): vfs.Limit,
		strings.Repeat("n", 255) + "/a": "", strings.Repeat("n", 256) + "/a": vfs.Invalid, strings.Repeat("n", 4096): vfs.Limit,
		"": vfs.Invalid, "/": vfs.Invalid, "/a": vfs.Invalid, "a/": vfs.Invalid, "a//b": vfs.Invalid, "a/./b": vfs.Invalid, "a/..": vfs.Invalid, "a\x00/b": vfs.Invalid,
	} {
		names, err := vfs.SplitPath(path)
		check.Is(t, vfs.Printable(path), err, want)
		if err == nil && strings.Join(names, "/") != path {
			t.Errorf("%q became %q", path, names)
		}
	}
}

func TestPrintable(t *testing.T) {
	for path, want := range map[string]string{
		"a/b": "a/b", "é界😀": "é界😀", "": "", "a\xffb": `a\xffb`, "\x1b[1m": `\u001b[1m`, "a\nb": `a\u000ab`, "\u202ex": `\u202ex`, "\ufffd": "\ufffd",
		"\ufffd\xff": "\ufffd\\xff", "\U000e0041": `\U000e0041`, "\xe7\x95": `\xe7\x95`, "x\u200b": `x\u200b`,
	} {
		if got := vfs.Printable(path); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	err := vfs.At("a\nb", vfs.NotFound)
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the text of an error has a line break of its path: %q", err.Error())
	}
}

func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", "\xff", "\u202e", "a\x00", "%2e%2e", "e\u0301", `..\x`, "\U000e0041", "", "a//b", "/etc/passwd"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		have, fresh := vfs.CheckName(s), vfs.CheckNewName(s)
		if have != nil && fresh == nil {
			t.Error("may be made and not named")
		}
		if have == nil && (s == "" || s == "." || s == ".." || strings.ContainsAny(s, "/\x00") || len(s) > 255) {
			t.Error("a bad name")
		}
		shown := vfs.Printable(s)
		if !utf8.ValidString(shown) || strings.ContainsAny(shown, "\n\r\x1b\x00\u202e\u200b") || vfs.Printable(shown) != shown {
			t.Errorf("shown as %q", shown)
		}
		if fresh == nil && shown != s {
			t.Errorf("may be made, but is shown as %q", shown)
		}
		if names, err := vfs.SplitPath(s); err == nil {
			if strings.Join(names, "/") != s || slices.ContainsFunc(names, func(n string) bool { return vfs.CheckName(n) != nil }) {
				t.Errorf("split into %q", names)
			}
		} else if code := vfs.CodeOf(err); code != vfs.Invalid && code != vfs.Limit {
			t.Error(err)
		}
	})
}
