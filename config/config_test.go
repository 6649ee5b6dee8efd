package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"capd/config"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// full is the content of testdata/full.yaml, which has every key.
var full = &config.Config{
	State:     "state",
	Listen:    []string{"tls:localhost:7000", "tls::0", "tls:[::1]:7001", "tls:[fe80::1%eth0]:7002"},
	Advertise: "files.example.org:7000",

	SocketMode: "0660", SocketGroup: "agents", SocketDir: "sockets",
	Limits:      meter.Limits{meter.Connections: 512, meter.ReplyBytes: -1},
	GuestLimits: meter.Limits{meter.StoredBytes: 1024, meter.Nodes: 1000},
	Record:      config.Record{Keep: 90 * 24 * time.Hour, Size: 256 << 20, OTLP: "https://collector:4318"},
	History:     config.History{Bytes: 64 << 20, Changes: 200, Keep: 12 * time.Hour, Total: 1e9},
	Mounts: []config.Mount{
		{
			Path: "project", URL: "overlay:physical:../src", ReadOnly: true, Links: config.LinksRefuse,
			Deny: []string{"**/.env", "build/**"}, Ask: []string{"**/.git/**"},
			Quota: config.Quota{Bytes: 64 << 20, Nodes: 10_000}, Where: "full.yaml:10:5",
		},
		{Path: "project/history", URL: "git:../src?follow#main:docs", Links: config.LinksFollow, Deny: []string{}, Where: "full.yaml:18:5"},
		{Path: "tmp", URL: "memory:?max=64MiB", Links: config.LinksFollow, Quota: config.Quota{Bytes: 1024}, Where: "full.yaml:21:5"},
	},
	Roots: []config.Root{
		{ID: "project", Kind: operator.Workspace, Mount: "project/history", Access: operator.AccessRO, Scope: operator.SharedScope, Name: "The project", Labels: []string{"code", "main"}, Where: "full.yaml:26:5"},
		{ID: "history", Kind: operator.Knowledge, Mount: "project", Where: "full.yaml:33:5"},
	},
	Guests: []config.Guest{
		{Name: "agent", Root: "project", Path: "src", ReadOnly: true, Rights: membrane.Read | membrane.List | membrane.Metadata, Links: true, Permissions: []operator.Permission{{Kind: operator.Knowledge, Rights: membrane.Read | membrane.List}}, BeyondDefault: true, Scratch: config.Scratch{Bytes: 1 << 30}, Limits: meter.Limits{meter.StoredBytes: 1e9, meter.StoredNodes: 65_536, meter.Threads: -1}, Expires: 720 * time.Hour, Unused: 12 * time.Hour, Uses: 3, Where: "full.yaml:35:5", LocatorFile: "agent.locator"},
		{Name: "g1.reader", Where: "full.yaml:52:5"},
	},
	Invites: []config.Invite{
		{
			Subject: "extension:lint", Source: "core", Expires: 720 * time.Hour, LocatorFile: "lint.locator", Where: "full.yaml:83:5",
			Permissions: []operator.Permission{{Kind: operator.Workspace, Rights: membrane.Read | membrane.List}, {Kind: operator.ExtensionStorage, Rights: membrane.AllRights}},
		},
		{Subject: "builder", LocatorFile: "builder.locator", Where: "full.yaml:88:5"},
	},
	Approvals: config.ApprovalsWait,
	Hooks: []operator.Hook{
		{Name: "lint", Command: []string{"/usr/local/bin/lint", "--strict"}, Before: true, After: true, Operations: []string{"write", "move"}, Patterns: []string{"project/**/*.go"}, Subject: "extension:lint", Observe: true, Source: "full.yaml:73:5"},
		{Name: "index.2", Command: []string{"/usr/local/bin/index"}, After: true, Source: "full.yaml:81:5"},
	},
	Policy: config.Policy{Default: operator.RuleDeny},
	Rules: []operator.Rule{
		{
			Effect: operator.RuleAsk, Subject: "agent-run:*", Root: operator.RuleRoot{Kind: "workspace"}, Operations: []string{"write", "delete", "move"},
			Patterns: []string{"**/.github/**"}, Except: []string{"**/.github/ISSUE_TEMPLATE/**"},
			Symlinks: "in-root", Hardlinks: "reject", MaxFileBytes: 10 << 20, Audit: "reads", Source: "full.yaml:60:5",
		},
		{Effect: operator.RuleAllow, Root: operator.RuleRoot{ID: "project"}, Patterns: []string{"**"}, Hardlinks: "allow", Symlinks: "reject", Source: "full.yaml:70:5"},
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

// TestHuge: a file of the greatest length with as much in it as possible is parsed within
// the time of the test.
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

// TestPaths: a guest's path may lie in a mount or lead to one.
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
		"storedBytes=":           "such as 64MiB",
		"storedBytes=64M":        "with KB, MB, GB, TB, KiB, MiB, GiB or TiB directly after it, such as 64MiB, or none for no limit",
		"storedBytes=1Gb":        `storedBytes is "1Gb": this is not a size (did you mean 1GB?); write a whole number of bytes, or a number with KB,`,
		"storedBytes=1gib":       "did you mean 1GiB?",
		"storedBytes=1.5GB":      `"1.5GB": this is not a size; write`,
		"storedBytes=8388608TiB": "too large; write one below 8388608TiB, or none for no limit",
		"storedBytes=None":       "or none for no limit",
	} {
		if _, _, err := config.ParseLimit(s); vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// FuzzParse: for any file, Parse returns a config that keeps its contract, or says where
// the mistake is. The same text with other line ends gives the same answer.
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
