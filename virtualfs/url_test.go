package virtualfs_test

import (
	"strings"
	"testing"

	"capd/vfs"
	"capd/virtualfs"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		text, scheme, path, fragment, query string
		again                               string // what String writes; "" for text
	}{
		{"physical:/a b", "physical", "/a b", "", "", "physical:/a%20b"},
		{"physical:/a%23b%25", "physical", "/a#b%", "", "", ""},
		{"physical:", "physical", "", "", "", ""},
		{"git:/r#main", "git", "/r", "main", "", ""},
		{"git:/r?writable#refs/heads/a#b", "git", "/r", "refs/heads/a#b", "writable", ""},
		{"git:/r?follow&writable=0#HEAD:a/b", "git", "/r", "HEAD:a/b", "follow", ""},
		{"memory:?max=64MiB", "memory", "", "", "max", ""},
		{"cas:grpc://h:1/i#00/5", "cas", "grpc://h:1/i", "00/5", "", ""},
	} {
		u, err := virtualfs.ParseURL(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if u.Scheme != c.scheme || u.Path != c.path || u.Fragment != c.fragment || c.query != "" && !u.Query.Has(c.query) {
			t.Errorf("%s: %+v", c.text, u)
		}
		again := c.again
		if again == "" {
			again = c.text
		}
		if u.String() != again {
			t.Errorf("%s is written %s, want %s", c.text, u, again)
		}
	}
	u, err := virtualfs.ParseURL("overlay:upper=/u%3Ax,max=1:git:/r?writable#main")
	if err != nil || u.Query.Get("upper") != "/u:x" || u.Query.Get("max") != "1" || u.Below.Scheme != "git" || !u.Below.Flag("writable") || u.Below.Flag("follow") {
		t.Errorf("an overlay: %+v, %v", u, err)
	}
	for _, text := range []string{"", "physical", "/a", "C:\\x", "Physical:/a", ":x", "physical:%zz", "physical:/a%00b", "memory:?max=1&max=2",
		"overlay:", "overlay:/a", "overlay:overlay:memory:", "overlay:upper=%zz:memory:"} {
		if u, err := virtualfs.ParseURL(text); vfs.CodeOf(err) != vfs.Invalid {
			t.Errorf("%q is taken for %+v, %v", text, u, err)
		}
	}
	if err := u.Below.Only("follow"); vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(err.Error(), `"writable"`) {
		t.Errorf("an option that is not known: %v", err)
	}
}

// FuzzURL: a URL that was read and written is read as the same again.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"physical:/a", "git:/r?writable#main", "overlay:upper=/u,max=1:memory:?max=3", "cas:#00", "a:%41?b=%2C&c#%23"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := virtualfs.ParseURL(s)
		if err != nil {
			if vfs.CodeOf(err) != vfs.Invalid {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		text := u.String()
		again, err := virtualfs.ParseURL(text)
		if err != nil {
			t.Fatalf("%q is written %q, which is not read: %v", s, text, err)
		}
		if again.String() != text || again.Path != u.Path || again.Fragment != u.Fragment || (again.Below == nil) != (u.Below == nil) {
			t.Fatalf("%q is written %q, which is read %+v", s, text, again)
		}
	})
}
