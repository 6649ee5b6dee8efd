package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/vfs"
)

// A configuration is refused for what its URLs say, in which line, without a look at anything that they name.
func TestConfigForms(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for url, want := range map[string]string{
		"foo:bar":                              `there is no kind of store called "foo"; there are: cas, git, memory, overlay, physical`,
		"cas:x#zz":                             "needs the digest of a root",
		"cas:x":                                "needs the digest of a root",
		"cas:x?a=b#" + digest:                  `has no option "a"`,
		"cas:grpc://h:1/i#" + digest:           "needs the size too",
		"cas:grpc://h:1/i#" + digest + "/12":   "",
		"cas:#" + digest:                       "",
		"cas:missing#" + digest:                "",
		"physical:":                            "names nothing",
		"physical:missing":                     "",
		"physical:missing?readonly":            "",
		"physical:x?writable":                  `has no option "writable"`,
		"physical:x#y":                         "takes nothing after #",
		"git:":                                 "names nothing",
		"git:missing#main":                     "",
		"git:x?writable#main:sub":              "cannot be written to",
		"git:x?max=1":                          `has no option "max"`,
		"memory:":                              "",
		"memory:x":                             "memory has no path",
		"memory:?max=64MiB&nodes=10":           "",
		"memory:?max=lots":                     "no size above 0",
		"memory:?max=0":                        "no size above 0",
		"overlay:foo:bar":                      "no kind of store",
		"overlay:physical:missing":             "",
		"overlay:nodes=x:physical:missing":     "no size above 0",
		"overlay:under=x:physical:missing":     `has no option "under"`,
		"overlay:upper=missing:git:missing#v1": "",
		"overlay:cas:x#zz":                     "needs the digest of a root",
	} {
		name := filepath.Join(t.TempDir(), "capd.yaml")
		if err := os.WriteFile(name, fmt.Appendf(nil, "mounts:\n  - path: m\n    url: %q\n", url), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := new(Server).Load(name)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s is refused: %v", url, err)
		case want != "" && (vfs.CodeOf(err) != vfs.Invalid || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "capd.yaml:2:")):
			t.Errorf("%s: %v, want %q in line 2", url, err, want)
		}
	}
}
