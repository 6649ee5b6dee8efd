package roots

import (
	"strings"
	"testing"
)

// TestPaths: whatever an agent sends, no tool reaches or names what is outside of the roots.
func TestPaths(t *testing.T) {
	rs := Roots{{Shown: "/home/me/project", At: "p", Real: "/mnt/real/project"}, {Shown: "/data", At: "d"}, {Shown: "/data/inner", At: "i"}}
	for sent, want := range map[string]string{
		"": "p", ".": "p", "a": "p/a", "./a//b/../c": "p/a/c", "/home/me/project": "p", "/home/me/project/": "p", "/home/me/project/x/..": "p", "/mnt/real/project/x": "p/x",
		"/data/x": "d/x", "/data/inner/x": "i/x", "/data/innermost": "d/innermost", "//data///x": "d/x", "a\nb": "p/a\nb",
	} {
		if got, err := rs.In(sent); err != nil || got != want {
			t.Errorf("%q is %q, %v; want %q", sent, got, err, want)
		}
	}
	for _, sent := range []string{"..", "../project2", "a/../../b", "/", "/etc/passwd", "/home/me", "/home/me/projectx", "/mnt/real", "/data/..", "/data/../etc", "~/x/../../..", "/data\x00", `\\server\share\..\..`} {
		got, err := rs.In(sent)
		if err == nil && !strings.HasPrefix(got, "p") {
			t.Errorf("%q is %q", sent, got)
		}
		if err != nil && (strings.Contains(err.Error(), "/mnt/real") && !strings.Contains(sent, "/mnt/real")) {
			t.Errorf("%q: %v names the real path", sent, err)
		}
	}
	for sent, want := range map[string]string{"": "", ".": "p", "/data": "d"} {
		if got, err := rs.Begin(sent); err != nil || got != want {
			t.Errorf("a search of %q begins at %q, %v", sent, got, err)
		}
	}
	if got, err := rs[:1].Begin(""); err != nil || got != "p" {
		t.Errorf("a search of one root begins at %q, %v", got, err)
	}
	for at, want := range map[string]string{"p": "/home/me/project", "p/a": "/home/me/project/a", "d/x": "/data/x", "i": "/data/inner", "p/a\nb": "/home/me/project/a\\u000ab"} {
		if got := rs.Out(at); got != want {
			t.Errorf("%q is shown as %q, want %q", at, got, want)
		}
	}
}
