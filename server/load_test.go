package server

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
)

// A configuration is refused for what its URLs say. The error names the line. Nothing that they name is
// opened.
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
		"git:x?max=1":                          `max goes with writable; write git:REPO?writable&max=1`,
		"git:x?keep#main":                      `keep goes with writable; write git:REPO?writable&keep`,
		"git:x?writable&keep=yes":              `keep=yes is not true or false`,
		"overlay:keep=no:physical:x":           `keep=no is not true or false`,
		"memory:":                              "",
		"memory:x":                             "memory has no path",
		"memory:?max=64MiB&nodes=10":           "",
		"memory:?max=lots":                     "not a size above 0",
		"memory:?max=0":                        "not a size above 0",
		"overlay:foo:bar":                      "no kind of store",
		"overlay:physical:missing":             "",
		"overlay:nodes=x:physical:missing":     "not a size above 0",
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

// Fields that are set already stay, paths are relative to the file, and the file's guests are returned.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "capd.yaml")
	if err := os.WriteFile(name, []byte(`state: s
listen: ["tls:localhost:7"]
advertise: example.org
socketMode: "0666"
socketDir: sockets
socketGroup: agents
guestLimits: {connections: 3}
mounts:
  - {path: m, url: "overlay:upper=u:physical:p", readOnly: true, quota: {bytes: 5}}
guests:
  - {name: ada, path: m}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var s Server
	guests, err := s.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	where := name + ":9:5"
	want := Server{State: filepath.Join(dir, "s"), Listen: []Address{"tls:localhost:7"}, Advertise: "example.org",
		Socket:      Socket{Group: "agents", Mode: 0o666, Dir: filepath.Join(dir, "sockets")},
		GuestLimits: Limits{meter.Connections: 3},
		Mounts: []Mount{{Path: "m", URL: "overlay:upper=" + filepath.Join(dir, "u") + ":physical:" + filepath.Join(dir, "p"), Where: where,
			Attenuation: Attenuation{ReadOnly: true, Bytes: 5}}}}
	if !reflect.DeepEqual(&s, &want) {
		t.Errorf("loaded %+v\nwant %+v", &s, &want)
	}
	if len(guests) != 1 || guests[0].Name != "ada" || guests[0].Path != "m" {
		t.Errorf("the guests are %+v", guests)
	}
	own := Server{State: "mine", Listen: []Address{"tls::0"}, Advertise: "mine.org", Socket: Socket{Group: "mine", Mode: 0o660, Dir: "mine"}}
	if _, err := own.Load(name); err != nil {
		t.Fatal(err)
	}
	if own.State != "mine" || own.Listen[0] != "tls::0" || own.Advertise != "mine.org" || own.Socket != (Socket{Group: "mine", Mode: 0o660, Dir: "mine"}) {
		t.Errorf("what was set became %+v", &own)
	}
	if own := (&Server{Stores: map[string]Opener{"mine": nil}}); own.checkForm(&URL{Scheme: "mine"}) == nil {
		t.Error("an opener that is nil is one")
	}
}
