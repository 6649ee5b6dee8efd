package main

import (
	"bytes"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"capd/vfs/vfstest/check"
)

// The --help of every command has examples. Every command that lists something has
// --json.
func TestHelp(t *testing.T) {
	lists := strings.Fields("grants mounts status diff snapshots ls tree stat glob")
	n := 0
	_ = kong.Visit(model(t), func(node kong.Visitable, next kong.Next) error {
		if c, ok := node.(*kong.Node); ok && c.Type == kong.CommandNode {
			n++
			name := c.Path()
			out := call(t, 0, append(strings.Fields(name), "--help")...)
			_, examples, ok := strings.Cut(out, "Examples:\n")
			if !ok {
				t.Fatalf("%s --help has no examples", name)
			}
			if got, part := examples, "capd "+name; !strings.Contains(got, part) {
				t.Fatalf("%v: %q does not contain %q", name, got, part)
			}
			listing := slices.Contains(lists, name) || strings.HasPrefix(c.Help, "List")
			if !(!listing || hasFlag(c, "json")) {
				t.Fatalf("%s lists something and has no --json", name)
			}
			if listing {
				lists = slices.DeleteFunc(lists, func(l string) bool { return l == name })
			}
		}
		return next(nil)
	})
	if got := n; got <= 25 {
		t.Fatalf("%d commands were checked, want more than 25", got)
	}
	if got := lists; len(got) != 0 {
		t.Fatalf("these commands no longer exist: %v", got)
	}
	if got, part := call(t, 0), "set-writable"; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
}

func hasFlag(n *kong.Node, name string) bool {
	return slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name })
}

func TestUsage(t *testing.T) {
	t.Setenv("CAPD_CAP", "")
	for _, args := range [][]string{
		{"nonsense"}, {"ls", "--nonsense"}, {"glob"}, {"set-writable", "guest", "maybe"}, {"ls"}, {"cat", "x", "y"},
	} {
		if got, part := call(t, exitUsage, args...), "capd: usage: "; !strings.Contains(got, part) {
			t.Fatalf("%q does not contain %q", got, part)
		}
	}
	if got, part := call(t, exitRefused, "ls", "--cap", "capnp://nonsense"), "capd: denied: "; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
	if got, part := call(t, exitRefused, "rm", "x", "--if-version", ""), "capd: invalid: "; !strings.Contains(got, part) {
		t.Fatalf("no condition must not pass for one: %q does not contain %q", got, part)
	}
	if got, part := call(t, exitRefused, "rm", "x", "--if-version", strings.Repeat("0", 64)), "capd: invalid: "; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
	if got, part := call(t, exitRefused, "cat", "q\xfe"), "capd: invalid: "; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
	if got, part := call(t, exitRefused, "serve", "main_test.go"), "capd: notDir: "; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
	if got, part := call(t, exitRefused, "ls", "--cap", "@/missing/file"), "capd: invalid: "; !strings.Contains(got, part) {
		t.Fatalf("%q does not contain %q", got, part)
	}
}

// call runs capd in this process and returns all it printed.
func call(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	got := run(newEnv(t.Context(), strings.NewReader(""), &out, &out), args)
	if got, want := got, code; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v: %s: %v, want %v", args, out.String(), got, want)
	}
	return out.String()
}

// Both ways to ask for the version work, even if other arguments are missing.
func TestVersion(t *testing.T) {
	want := call(t, 0, "version")
	if got := want; !regexp.MustCompile(`^capd \S+\n$`).MatchString(got) {
		t.Fatalf("%q does not match", got)
	}
	for _, args := range [][]string{{"--version"}, {"rm", "--version"}, {"--version", "rm"}} {
		if got, want := call(t, 0, args...), want; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", args, got, want)
		}
	}
}

func model(t *testing.T) *kong.Application {
	t.Helper()
	p, err := newParser(newEnv(t.Context(), nil, io.Discard, io.Discard), &commands{}, func(int) {})
	check.OK(t, err)
	return p.Model
}
