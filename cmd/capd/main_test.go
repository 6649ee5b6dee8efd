package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// The --help of every command has examples. Every command that lists something has
// --json.
func TestHelp(t *testing.T) {
	lists := strings.Fields("grants mounts status diff snapshots ls tree stat glob")
	n := 0
	_ = kong.Visit(model(t), func(node kong.Visitable, next kong.Next) error {
		if c, ok := node.(*kong.Node); ok && c.Type == kong.CommandNode {
			n++
			name := commandName(c)
			out := call(t, 0, append(strings.Fields(name), "--help")...)
			_, examples, ok := strings.Cut(out, "Examples:\n")
			require.True(t, ok, "%s has no examples", name)
			require.Contains(t, examples, "capd "+name, name)
			listing := slices.Contains(lists, name) || strings.HasPrefix(c.Help, "List")
			require.True(t, !listing || hasFlag(c, "json"), "%s has no --json", name)
			if listing {
				lists = slices.DeleteFunc(lists, func(l string) bool { return l == name })
			}
		}
		return next(nil)
	})
	require.Greater(t, n, 25)
	require.Empty(t, lists)
	require.Contains(t, call(t, 0), "set-writable")
}

func hasFlag(n *kong.Node, name string) bool {
	return slices.ContainsFunc(n.Flags, func(f *kong.Flag) bool { return f.Name == name })
}

func TestUsage(t *testing.T) {
	t.Setenv("CAPD_CAP", "")
	for _, args := range [][]string{
		{"nonsense"}, {"ls", "--nonsense"}, {"glob"}, {"set-writable", "guest", "maybe"}, {"ls"}, {"cat", "x", "y"},
	} {
		require.Contains(t, call(t, exitUsage, args...), "capd: usage: ")
	}
	require.Contains(t, call(t, exitRefused, "ls", "--cap", "capnp://nonsense"), "capd: denied: ")
	require.Contains(t, call(t, exitRefused, "rm", "x", "--if-version", ""), "capd: invalid: ", "no condition must not pass for one")
	require.Contains(t, call(t, exitRefused, "rm", "x", "--if-version", strings.Repeat("0", 64)), "capd: invalid: ")
	require.Contains(t, call(t, exitRefused, "cat", "q\xfe"), "capd: invalid: ")
	require.Contains(t, call(t, exitRefused, "serve", "main_test.go"), "capd: notDir: ")
	require.Contains(t, call(t, exitRefused, "ls", "--cap", "@/missing/file"), "capd: invalid: ")
}

// call runs capd in this process and returns all it printed.
func call(t *testing.T, code int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	got := run(newEnv(t.Context(), strings.NewReader(""), &out, &out), args)
	require.Equal(t, code, got, "%v: %s", args, out.String())
	return out.String()
}

// Both ways to ask for the version work, even if other arguments are missing.
func TestVersion(t *testing.T) {
	want := call(t, 0, "version")
	require.Regexp(t, `^capd \S+\n$`, want)
	for _, args := range [][]string{{"--version"}, {"rm", "--version"}, {"--version", "rm"}} {
		require.Equal(t, want, call(t, 0, args...), args)
	}
}

func model(t *testing.T) *kong.Application {
	t.Helper()
	p, err := newParser(newEnv(t.Context(), nil, io.Discard, io.Discard), &commands{}, func(int) {})
	require.NoError(t, err)
	return p.Model
}
