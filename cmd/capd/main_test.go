package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every command has examples in its --help, and a wrong command line is a usage
// error with exit code 2.
func TestHelpHasExamples(t *testing.T) {
	for _, name := range strings.Fields("serve grant grants revoke set-writable status ls tree cat put append stat mkdir rm glob help attenuate tour") {
		out := call(t, 0, name, "--help")
		require.Contains(t, out, "Examples:", name)
		require.Contains(t, out, "capd "+name, name)
	}
	require.Contains(t, call(t, 0), "set-writable")
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
	got := run(&env{t.Context(), strings.NewReader(""), newOutput(&out), &out}, args)
	require.Equal(t, code, got, "%v: %s", args, out.String())
	return out.String()
}

// The version is asked for in either way, and what else is missing does not matter.
func TestVersion(t *testing.T) {
	want := call(t, 0, "version")
	require.Regexp(t, `^capd \S+\n$`, want)
	for _, args := range [][]string{{"--version"}, {"rm", "--version"}, {"--version", "rm"}} {
		require.Equal(t, want, call(t, 0, args...), args)
	}
}
