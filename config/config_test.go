package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"capd/config"
	"capd/meter"
	"capd/vfs"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// full is what testdata/full.yaml says: every key.
var full = &config.Config{
	State:     "state",
	Listen:    []string{"tls:localhost:7000", "tls::0", "tls:[::1]:7001", "tls:[fe80::1%eth0]:7002"},
	Advertise: "files.example.org:7000",

	SocketMode: "0660", SocketGroup: "agents", SocketDir: "sockets",
	Limits:      meter.Limits{meter.Connections: 512, meter.ReplyBytes: -1},
	GuestLimits: meter.Limits{meter.StoredBytes: 1024, meter.Nodes: 1000},
	Mounts: []config.Mount{
		{
			Path: "project", URL: "overlay:physical:../src", ReadOnly: true, Links: config.LinksRefuse,
			Deny: []string{"**/.env", "build/**"}, Ask: []string{"**/.git/**"},
			Quota: config.Quota{Bytes: 64 << 20, Nodes: 10_000}, Where: "full.yaml:10:5",
		},
		{Path: "project/history", URL: "git:../src?follow#main:docs", Links: config.LinksFollow, Deny: []string{}, Where: "full.yaml:18:5"},
		{Path: "tmp", URL: "memory:?max=64MiB", Links: config.LinksFollow, Quota: config.Quota{Bytes: 1024}, Where: "full.yaml:21:5"},
	},
	Guests: []config.Guest{
		{Name: "agent", Path: "project", ReadOnly: true, Limits: meter.Limits{meter.StoredBytes: 1e9, meter.StoredNodes: 65_536, meter.Threads: -1}, Where: "full.yaml:26:5"},
		{Name: "g1.reader", Where: "full.yaml:33:5"},
	},
}

func TestParse(t *testing.T) {
	data := read(t, "testdata/full.yaml")
	for what, data := range map[string]string{
		"as it is":             string(data),
		"with a BOM":           "\ufeff" + string(data),
		"with CRLF":            strings.ReplaceAll(string(data), "\n", "\r\n"),
		"with CR":              strings.ReplaceAll(string(data), "\n", "\r"),
		"without its last end": strings.TrimSuffix(string(data), "\n"),
		"with marks":           regexp.MustCompile(`^#[^\n]*`).ReplaceAllString(string(data), "---") + "...\n# the end\n",
	} {
		c, err := config.Parse("full.yaml", []byte(data))
		if err != nil || !reflect.DeepEqual(c, full) {
			t.Errorf("%s: %v\n%+v\nrather than\n%+v", what, err, c, full)
		}
	}

	c, err := config.Parse("root.json", read(t, "testdata/root.json"))
	want := &config.Config{
		Mounts: []config.Mount{{URL: "physical:.", Links: config.LinksFollow, Ask: []string{"café/**"}, Where: "root.json:3:5"}},
		Guests: []config.Guest{{Name: "agent", Where: "root.json:5:14"}},
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, %v\nrather than\n%+v", c, err, want)
	}
	tabs, err := config.Parse("f", []byte(strings.ReplaceAll(string(read(t, "testdata/root.json")), "  ", "\t")))
	if err != nil || len(tabs.Mounts) != 1 || tabs.Mounts[0].URL != "physical:." {
		t.Errorf("with tabs: %+v, %v", tabs, err)
	}
}

// mounts is a file whose only mount is the flow mapping that holds keys, on line 2.
func mounts(keys string) string { return "mounts:\n- {" + keys + "}\n" }

// mount is a file with one more key of its mount, on line 4.
func mount(key string) string { return "mounts:\n- path: a\n  url: memory:x\n  " + key + "\n" }

// guest is a file with one guest, on line 3.
func guest(keys string) string {
	return "mounts: [{path: a, url: 'memory:'}]\nguests:\n- {" + keys + "}\n"
}

// top is a file with one more key, on line 2.
func top(key string) string { return "mounts: [{path: a, url: 'memory:'}]\n" + key + "\n" }

// mistakes are files with a mistake, where it is, and a part of what is said.
var mistakes = []struct {
	file, at, says string
	schema         bool // the schema refuses it too
}{
	// The file.
	{"", "1:1", "says nothing", true},
	{"\ufeff", "1:1", "says nothing", true},
	{"# nothing\n", "1:1", "says nothing", true},
	{"---\n", "1:1", "says nothing", true},
	{"null\n", "1:1", "says nothing", true},
	{"x\n", "1:1", "the file is a text", true},
	{"- a\n", "1:1", "the file is a list", true},
	{"7\n", "1:1", "the file is a number", true},
	{"{}\n", "1:1", "no mounts; write mounts:", true},
	{"mounts: []\n", "1:9", "mounts is empty", true},
	{"mounts:\n", "1:1", "mounts is nothing", true},
	{"mounts: {}\n", "1:9", "mounts is a mapping", true},
	{"mounts: [a]\n", "1:10", "a mount is a text", true},
	{"mounts: [~]\n", "1:10", "a mount is nothing", true},
	{top("---\nmounts: []"), "2:1", "second document", false},
	{top("...\nx: y"), "3:1", "second document", false},
	{"a\x00b\n", "1:2", "U+0000", false},
	{"a: é\x1b\n", "1:5", "U+001B", false},
	{"a: x\u0085y\n", "1:5", "U+0085", false},
	{"é: \n  é\xff\n", "2:4", "not UTF-8", false},
	{"\xff\xfem\x00o\x00", "1:1", "not UTF-8", false},
	{"mounts:\n\t- a\n", "2:1", "not YAML", false},
	{"mounts:\n  - path: a\n   url: b\n", "3:4", "not YAML", false},
	{"mounts: [\n", "1:9", "not YAML", false},
	{mount("x: \"é"), "4:6", "not YAML", false},
	{"mounts:\n- path: a\n  url: memory:\n", "3:8", "ends in \":\"", false},
	{"state: " + strings.Repeat("<\t", 128) + "<", "1:264", "more than 256 tabs", false},
	{"state: &a x\nlisten: [*a]\n", "1:8", "anchors", false},
	{"state: *a\n", "1:8", "aliases", false},
	{"state: !!str 7\n", "1:8", "tags", false},
	{"? state\n: x\n", "1:1", "KEY: VALUE", false},
	{"<<: {state: x}\n", "1:1", "merge keys", false},
	{"%YAML 1.2\n---\nstate: x\n", "1:1", "directives", false},
	{"state: " + strings.Repeat("[", 33), "1:39", "levels", false},
	{"state:\n" + strings.Repeat("- ", 33), "2:65", "levels", false},
	{"state: [" + strings.Repeat("- ", 31), "1:69", "levels", false},
	{strings.Repeat("a:\n", 65), "65:1", "more than 64 keys", false},
	{"m:\n  - b: 1\n" + strings.Repeat("    a: 1\n", 64), "66:5", "more than 64 keys", false},

	// Keys.
	{top("mount: []"), "2:1", `the file has no key "mount" (did you mean mounts?); it has state, listen,`, true},
	{top("colour: red"), "2:1", `no key "colour"; it has`, true},
	{top("7: x"), "2:1", `no key "7"`, true},
	{top("true: x"), "2:1", `no key "true"`, true},
	{top("null: x"), "2:1", `no key "null"`, true},
	{top("\"a\\u202e\": x"), "2:1", `no key "a\u202e"`, true},
	{top(strings.Repeat("k", 70) + ": x"), "2:1", `"` + strings.Repeat("k", 64) + `…";`, true},
	{top("mounts: []"), "2:1", "mounts is here twice, first in line 1", false},
	{mount("readonly: true"), "4:3", "did you mean readOnly?", true},
	{mount("read-only: true"), "4:3", "did you mean readOnly?", true},
	{mount("READ_ONLY: true"), "4:3", "did you mean readOnly?", true},
	{mount("aks: []"), "4:3", "did you mean ask?", true},
	{mount("qouta: {}"), "4:3", "did you mean quota?", true},
	{mount("denies: []"), "4:3", `no key "denies"; it`, true},
	{mount("x: []"), "4:3", `no key "x"; it`, true},
	{mount("url: git:x"), "4:3", "url is here twice, first in line 3", false},
	{mount("quota: {byte: 1}"), "4:11", "quota has no key \"byte\" (did you mean bytes?)", true},
	{mount("quota: {nodes: 1, nodes: 1}"), "4:21", "twice", false},
	{guest("name: a, nam: b"), "3:13", "a guest has no key \"nam\" (did you mean name?)", true},
	{mounts("path: a"), "2:3", "a mount has no url", true},
	{mounts("url: 'memory:'"), "2:3", "a mount has no path", true},
	{"mounts:\n- url: memory:x\n", "2:3", "a mount has no path", true},
	{guest("path: a"), "3:3", "a guest has no name", true},
	{guest(""), "3:3", "a guest has no name", true},

	// Types.
	{top("state: 7"), "2:8", `a number; if it is meant as a text, write "7"`, true},
	{top("state: 7.5"), "2:8", `write "7.5"`, true},
	{top("state: .nan"), "2:8", `write ".nan"`, true},
	{top("state: true"), "2:8", `write "true"`, true},
	{top("state:"), "2:1", "state is nothing", true},
	{top("state: ~"), "2:1", "state is nothing", true},
	{top("state: []"), "2:8", "state is a list", true},
	{top("state: {a: b}"), "2:8", "state is a mapping", true},
	{top("state:\n  a: b"), "3:3", "state is a mapping", true},
	{top("state: ''"), "2:8", "state is empty", true},
	{top("state: \"a\\0b\""), "2:8", `control character, or more lines than one; write "ab"`, false},
	{top("state: |\n  a"), "2:8", `write "a"`, false},
	{top("listen: tls::0"), "2:9", "listen is a text; write a list", true},
	{top("guests: x"), "2:9", "guests is a text; write a list", true},
	{top("guests: [x]"), "2:10", "a guest is a text", true},
	{mount("readOnly: yes"), "4:13", "readOnly is a text; write true or false", true},
	{mount("readOnly: 1"), "4:13", "readOnly is a number; write true or false", true},
	{mount("readOnly:"), "4:3", "readOnly is nothing", true},
	{mount("links: [follow]"), "4:10", "links is a list", true},
	{mount("deny: x"), "4:9", "deny is a text; write a list", true},
	{mount("deny:"), "4:3", "[] for an empty list", true},
	{mount("ask: [1]"), "4:9", "an item of ask is a number", true},
	{mount("ask: [~]"), "4:9", "an item of ask is nothing", true},
	{mount("ask: [a, ]\n  quota: 7"), "5:10", "quota is a number; write a mapping", true},
	{mount("quota: []"), "4:10", "quota is a list", true},

	// Mounts.
	{mounts("path: /a, url: 'memory:'"), "2:10", `never with "/"`, true},
	{mounts("path: a/../b, url: 'memory:'"), "2:10", "no parent", true},
	{mounts("path: ., url: 'memory:'"), "2:10", "not a name", true},
	{mounts("path: a//b, url: 'memory:'"), "2:10", "a name is empty", true},
	{mounts("path: a/, url: 'memory:'"), "2:10", "a name is empty", true},
	{mounts(`path: 'a\b', url: 'memory:'`), "2:10", "backslash", false},
	{mounts(`path: "a\u202eb", url: 'memory:'`), "2:10", "U+202E", false},
	{mounts("path: " + strings.Repeat("a", 256) + ", url: 'memory:'"), "2:10", "longer than 255", false},
	{mounts("path: " + strings.Repeat("a/", 2048) + "a, url: 'memory:'"), "2:10", "longer than 4095", true},
	{mounts("path: " + strings.Repeat("a/", 128) + "a, url: 'memory:'"), "2:10", "deeper than 128", false},
	{top("guests: []\n") + "#", "", "", false},
	{"mounts:\n- {path: a/b, url: 'memory:'}\n- {path: c, url: 'memory:'}\n- path: \"a/b\"\n  url: 'git:x'\n", "4:9", `the mount in line 2 is at "a/b" too`, false},
	{"mounts: [{path: '', url: 'memory:'}, {path: '', url: 'memory:'}]", "1:45", `line 1 is at "" too`, false},
	{mounts("path: a, url: ''"), "2:18", "what kind of store", true},
	{mounts("path: a, url: ../src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: C:\\src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: c:/src"), "2:18", "what kind of store", true},
	{mounts("path: a, url: ':x'"), "2:18", "what kind of store", true},
	{mounts("path: a, url: \"git:\\n\""), "2:18", "more lines than one", false},
	{mount("links: ignore"), "4:10", "follow or refuse", true},
	{mount("deny: ['[']"), "4:10", `the pattern is "[": a pattern holds an open`, false},
	{mount("deny: [a, /b]"), "4:13", `never with "/"`, true},
	{mount("deny: ['']"), "4:10", "not empty", true},
	{mount("ask:\n  - 'a/../b'"), "5:5", `".."`, false},
	{mount("ask: ['{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}']"), "4:9", "more than 64", false},

	// Sizes and counts.
	{mount("quota: {bytes: 0}"), "4:18", "leave it out for no bound", true},
	{mount("quota: {bytes: '0'}"), "4:18", "leave it out for no bound", true},
	{mount("quota: {bytes: -1}"), "4:18", "bytes is -1", true},
	{mount("quota: {bytes: -1MiB}"), "4:18", "no size", true},
	{mount("quota: {bytes: 1.5}"), "4:18", "bytes is a number", true},
	{mount("quota: {bytes: 1.5MiB}"), "4:18", "no size", true},
	{mount("quota: {bytes: 0x10}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 010}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 1_000}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: +5}"), "4:18", "plain digits", false},
	{mount("quota: {bytes: 9223372036854775808}"), "4:18", "too large", true},
	{mount("quota: {bytes: 99999999999999999999}"), "4:18", "too large", true},
	{mount("quota: {bytes: 9223372036854775808B}"), "4:18", "too large", false},
	{mount("quota: {bytes: 8388608TiB}"), "4:18", "too large", false},
	{mount("quota: {bytes: 64 MiB}"), "4:18", "no size", true},
	{mount("quota: {bytes: 64mib}"), "4:18", "no size", true},
	{mount("quota: {bytes: MiB}"), "4:18", "no size", true},
	{mount("quota: {bytes: }"), "4:11", "bytes is nothing", true},
	{mount("quota: {bytes: true}"), "4:18", "bytes is true or false", true},
	{mount("quota: {nodes: 0}"), "4:18", "nodes is 0", true},
	{mount("quota: {nodes: -7}"), "4:18", "nodes is -7", true},
	{mount("quota: {nodes: -9223372036854775809}"), "4:18", "nodes is", true},
	{mount("quota: {nodes: 1k}"), "4:18", "nodes is a text", true},
	{mount("quota: {nodes: '1'}"), "4:18", "nodes is a text", true},
	{mount("quota: {nodes: 1.5}"), "4:18", "nodes is a number", true},
	{mount("quota: {nodes: 18446744073709551615}"), "4:18", "too large", true},

	// Guests.
	{guest("name: ''"), "3:10", "1 to 64", true},
	{guest("name: a b"), "3:10", "1 to 64", true},
	{guest("name: a/1"), "3:10", "1 to 64", true},
	{guest("name: é"), "3:10", "1 to 64", true},
	{guest("name: " + strings.Repeat("x", 65)), "3:10", "1 to 64", true},
	{guest("name: g12"), "3:10", "grant's id", true},
	{guest("name: 7"), "3:10", `write "7"`, true},
	{guest("name: a}\n- {name: b}\n- {name: a"), "5:10", "the guest in line 3", false},
	{guest("name: a, path: /a"), "3:19", `never with "/"`, true},
	{guest("name: a, path: a/.."), "3:19", "no parent", true},
	{guest("name: a, readOnly: 'true'"), "3:23", "readOnly is a text", true},
	{guest("name: a, limits: {storedBytes: x}"), "3:35", "no size", true},

	// Limits.
	{top("limits: []"), "2:9", "limits is a list; write a mapping", true},
	{top("limits: {conections: 1}"), "2:10", `limits has no key "conections" (did you mean connections?); it has connections, nodes, streams,`, true},
	{top("guestLimits: {stored_bytes: 1}"), "2:15", "did you mean storedBytes?", true},
	{top("limits: {threads: 0}"), "2:19", "threads is 0; write a whole number from 1, in digits, or none for no limit, or leave it out for the default", true},
	{top("limits: {threads: 1k}"), "2:19", "threads is a text; write a whole number from 1, in digits, or none", true},
	{top("limits: {threads: '7'}"), "2:19", "threads is a text", true},
	{top("limits: {threads: -1}"), "2:19", "or none for no limit", true},
	{top("limits: {callBytes: 0}"), "2:21", "or none for no limit, or leave it out for the default", true},
	{top("limits: {callBytes: None}"), "2:21", "no size", true},
	{top("limits: {callBytes: 64M}"), "2:21", "no size", true},
	{top("limits: {nodes: 1, nodes: 2}"), "2:20", "nodes is here twice", false},
	{top("limits: {nodes: }"), "2:10", "nodes is nothing", true},
	{guest("name: a, quota: {bytes: 1}"), "3:13", `a guest has no key "quota"; it has name, path, readOnly, limits`, true},

	// Addresses.
	{top("listen: [localhost:7000]"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:localhost']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:localhost:']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:::1:7000']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:a b:7000']"), "2:10", "tls:HOST:PORT", true},
	{top("listen: ['tls:h:65536']"), "2:10", "tls:HOST:PORT", false},
	{top("listen: ['tls:h:-1']"), "2:10", "tls:HOST:PORT", true},
	{top("socketMode: 0660"), "2:13", "a number; if it is meant as a text", true},
	{top("socketMode: '0777'"), "2:13", "write an octal number in quotes", true},
	{top("socketMode: '0066'"), "2:13", "write an octal number in quotes", true},
	{top("socketMode: '660 '"), "2:13", "write an octal number in quotes", true},
	{top("socketGroup: ''"), "2:14", "write a group's name", true},
	{top("socketGroup: 7"), "2:14", `write "7"`, true},
	{top("socketDir: ''"), "2:12", "write a directory", true},
	{top("advertise: ''"), "2:12", "HOST or HOST:PORT", true},
	{top("advertise: ::1"), "2:12", "in brackets", true},
	{top("advertise: h:0"), "2:12", "HOST or HOST:PORT", true},
	{top("advertise: h:65536"), "2:12", "HOST or HOST:PORT", false},
	{top("advertise: tls:h:1"), "2:12", "HOST or HOST:PORT", true},
}

// TestMistakes: every mistake is named with its place, with nothing that could be
// taken for another line, and with what to do.
func TestMistakes(t *testing.T) {
	line := regexp.MustCompile(`^capd\.yaml:\d+:\d+: [^\n]+; [^\n]+$`)
	for _, m := range mistakes {
		c, err := config.Parse("capd.yaml", []byte(m.file))
		if m.at == "" {
			if err != nil {
				t.Errorf("%q: %v", m.file, err)
			}
			continue
		}
		e, ok := err.(*vfs.Error)
		if !ok || c != nil || e.Code != vfs.Invalid {
			t.Errorf("%q: %v, %v", m.file, c, err)
			continue
		}
		found := false
		for text := range strings.SplitSeq(e.Msg, "\n") {
			if !line.MatchString(text) || text != vfs.Printable(text) {
				t.Errorf("%q: says %q", m.file, text)
			}
			found = found || strings.HasPrefix(text, "capd.yaml:"+m.at+": ") && strings.Contains(text, m.says)
		}
		if !found {
			t.Errorf("%q: not %s %q but\n%s", m.file, m.at, m.says, e.Msg)
		}
	}
}

// TestAllMistakes: what is wrong in several places is said at once, in order.
func TestAllMistakes(t *testing.T) {
	_, err := config.Parse("dir\n/capd.yaml", []byte("guests: [{nam: 7}]\nmounts:\n- path: /a\n  url: x\n  deny: ['[', b, '{']\n"))
	want := []string{"1:10", "1:11", "3:9", "4:8", "5:10", "5:18"}
	e, _ := err.(*vfs.Error)
	if e == nil {
		t.Fatal(err)
	}
	var got []string
	for text := range strings.SplitSeq(e.Msg, "\n") {
		at, _, _ := strings.Cut(strings.TrimPrefix(text, `dir\u000a/capd.yaml:`), ": ")
		got = append(got, at)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("at %q rather than %q:\n%s", got, want, e.Msg)
	}

	_, err = config.Parse("f", []byte("mounts:\n"+strings.Repeat("- {}\n", 1000)))
	lines := strings.Split(err.Error(), "\n")
	if n := len(lines); n != 21 || lines[20] != "f:12:3: 1980 more mistakes from here on; correct those above first" {
		t.Errorf("%d lines, the last %q", n, lines[n-1])
	}
}

func TestTooLarge(t *testing.T) {
	comment := func(n int) []byte { return append([]byte("mounts: [{path: a, url: 'x1:'}]\n#"), make([]byte, n)...) }
	data := comment(config.MaxFile)
	for i, c := range data {
		if c == 0 {
			data[i] = 'x'
		}
	}
	if _, err := config.Parse("f", data); vfs.CodeOf(err) != vfs.TooLarge || !strings.Contains(err.Error(), "f:1:1: ") {
		t.Error(err)
	}
	if c, err := config.Parse("f", data[:config.MaxFile]); err != nil || len(c.Mounts) != 1 {
		t.Error(c, err)
	}
}

// TestHuge: a file of the greatest length that says as much as it can is answered
// without taking more than the test's own time.
func TestHuge(t *testing.T) {
	for what, file := range map[string]string{
		"levels of brackets": strings.Repeat("[", config.MaxFile),
		"levels of braces":   strings.Repeat("{a: ", config.MaxFile/4),
		"levels of dashes":   strings.Repeat("- ", config.MaxFile/2),
		"levels in brackets": "[" + strings.Repeat("- ", config.MaxFile/2-1),
		"levels of marks":    strings.Repeat("? ", config.MaxFile/2),
		"levels of keys":     strings.Repeat("a: ", config.MaxFile/3),
		"keys":               strings.Repeat("a:\n", config.MaxFile/3),
		"keys in brackets":   "{" + strings.Repeat("a,", config.MaxFile/2-1) + "}",
		"mappings":           "mounts:\n" + strings.Repeat("- a:\n", config.MaxFile/5-2),
		"items":              "mounts:\n" + strings.Repeat("-\n", config.MaxFile/2-4),
		"documents":          strings.Repeat("---\n", config.MaxFile/4),
		"anchors":            strings.Repeat("&a ", config.MaxFile/3),
		"tags":               strings.Repeat("! ", config.MaxFile/2),
		"quotes":             strings.Repeat(`"`, config.MaxFile),
		"one key":            strings.Repeat("k", config.MaxFile-3) + ": 1",
		"one text":           "state: [" + strings.Repeat("x", config.MaxFile-8),
		"an open quote":      strings.Repeat("- \"", config.MaxFile/3),
		"merge keys":         strings.Repeat("- true!"+strings.Repeat("<", 255)+"\n", config.MaxFile/263),
		"one merge key":      "- true!" + strings.Repeat("<", config.MaxFile-7),
		"tabs":               "- \"" + strings.Repeat("\t}", config.MaxFile/2-2),
		"patterns":           mount("deny: [" + strings.Repeat("'{a,b}/{a,b}/{a,b}/{a,b}/{a,b}/{a,b}/['\n,", 20_000) + "]"),
	} {
		t.Run(what, func(t *testing.T) {
			if len(file) > config.MaxFile {
				t.Errorf("%d bytes", len(file))
			}
			if _, err := config.Parse("f", []byte(file)); vfs.CodeOf(err) != vfs.Invalid || len(err.Error()) > 1<<14 {
				t.Errorf("%.200v", err)
			}
		})
	}
}

// TestPaths: what is beyond a mount, or leads to one, may be a guest's all the same.
func TestPaths(t *testing.T) {
	for _, path := range []string{"", "a", "b", "a/b/c", "é", `back\slash`, "..."} {
		c, err := config.Parse("f", []byte(guest("name: x, path: '"+path+"'")))
		if err != nil || c.Guests[0].Path != path {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]config.Size{
		"0": 0, "1": 1, "1024": 1024, "7B": 7, "1kB": 1000, "1KB": 1000, "3MB": 3e6, "1GB": 1e9, "2TB": 2e12,
		"1KiB": 1 << 10, "64MiB": 64 << 20, "1GiB": 1 << 30, "8388607TiB": 8388607 << 40,
		"9223372036854775807": 1<<63 - 1,
	} {
		if got, err := config.ParseSize(s); err != nil || got != want {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", " 1", "1 ", "1 MiB", "01", "00", "-1", "+1", "1.5MiB", "1e3", "0x10", "1_000", "MiB", "1M", "1mib", "1Mib", "1PiB", "1MiBs", "１",
		"9223372036854775808", "8388608TiB", "9007199254740992KiB", "99999999999999999999", strings.Repeat("9", 1000),
	} {
		if got, err := config.ParseSize(s); vfs.CodeOf(err) != vfs.Invalid || got != 0 {
			t.Errorf("%q: %d, %v", s, got, err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for s, want := range map[string]meter.Limits{
		"connections=1": {meter.Connections: 1}, "threads=none": {meter.Threads: -1}, "storedNodes=9223372036854775807": {meter.StoredNodes: 1<<63 - 1},
		"storedBytes=1": {meter.StoredBytes: 1}, "storedBytes=64MiB": {meter.StoredBytes: 64 << 20}, "replyBytes=none": {meter.ReplyBytes: -1},
	} {
		k, most, err := config.ParseLimit(s)
		if got := (meter.Limits{k: most}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v", s, got, err)
		}
	}
	for s, says := range map[string]string{
		"":                       "write KIND=N",
		"nodes":                  "write KIND=N",
		"=1":                     "there is no kind",
		"conections=1":           "did you mean connections?",
		"stored-bytes=1":         "did you mean storedBytes?",
		"colour=1":               `"colour"; there are connections, nodes,`,
		"nodes=":                 "a whole number from 1",
		"nodes=0":                "a whole number from 1",
		"nodes=-1":               "or none for no limit",
		"nodes=+1":               "a whole number from 1",
		"nodes=01":               "a whole number from 1",
		"nodes=1MiB":             "a whole number from 1",
		"storedBytes=0":          "such as 1024 or 64MiB",
		"storedBytes=":           "such as 1024 or 64MiB",
		"storedBytes=64M":        "such as 1024 or 64MiB",
		"storedBytes=8388608TiB": "such as 1024 or 64MiB",
		"storedBytes=None":       "or none for no limit",
	} {
		if _, _, err := config.ParseLimit(s); vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// FuzzParse: whatever the file, Parse answers a config that holds to its contract,
// or where it is wrong; and answers the same for the same text with other line ends.
func FuzzParse(f *testing.F) {
	for _, m := range mistakes {
		if len(m.file) < 1000 {
			f.Add([]byte(m.file))
		}
	}
	files, err := filepath.Glob("testdata/*.*")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		f.Add(read(f, name))
	}
	s := compiled(f)
	mistake := regexp.MustCompile(`^f:[1-9][0-9]*:[1-9][0-9]*: .+; .+$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("f", data)
		if !strings.Contains(string(data), "\r") {
			c2, err2 := config.Parse("f", []byte(strings.ReplaceAll(string(data), "\n", "\r\n")))
			if !reflect.DeepEqual(c, c2) || !reflect.DeepEqual(err, err2) {
				t.Errorf("with CRLF: %+v, %v\nrather than\n%+v, %v", c2, err2, c, err)
			}
		}
		if err != nil {
			e, ok := err.(*vfs.Error)
			if !ok || c != nil || e.Code != vfs.Invalid {
				t.Fatalf("%v, %#v", c, err)
			}
			for text := range strings.SplitSeq(e.Msg, "\n") {
				if !mistake.MatchString(text) || text != vfs.Printable(text) {
					t.Errorf("says %q", text)
				}
			}
			return
		}
		if err := valid(t, s, string(data)); err != nil {
			t.Errorf("the schema refuses it: %v", err)
		}
		paths, names := map[string]bool{}, map[string]bool{}
		for _, m := range c.Mounts {
			if paths[m.Path] || !strings.Contains(m.URL, ":") || m.Quota.Bytes < 0 || m.Quota.Nodes < 0 ||
				m.Links != config.LinksFollow && m.Links != config.LinksRefuse {
				t.Errorf("%+v", m)
			}
			paths[m.Path] = true
		}
		for _, g := range c.Guests {
			if names[g.Name] || g.Name == "" || strings.HasPrefix(g.Path, "/") {
				t.Errorf("%+v", g)
			}
			names[g.Name] = true
			for k, most := range g.Limits {
				if k >= meter.Kinds || most < -1 || most == 0 {
					t.Errorf("%+v", g)
				}
			}
		}
		if len(c.Mounts) == 0 {
			t.Error("no mounts")
		}
	})
}
