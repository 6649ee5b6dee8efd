package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The schemas compile for C++ where there is nothing else of capd's, and so does what is made of them.
func TestSchemaAlone(t *testing.T) {
	needCxx(t)
	dir := t.TempDir()
	ok(t, os.CopyFS(filepath.Join(dir, "schema"), os.DirFS("../schema")))
	made := func(args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	schemas, err := filepath.Glob("../schema/*.capnp")
	ok(t, err)
	for i, s := range schemas {
		schemas[i] = filepath.Join("schema", filepath.Base(s))
	}
	made(append([]string{"capnp", "compile", "-oc++"}, schemas...)...)
	for _, s := range schemas {
		if thorough { // otherwise what is built of it for the programs of interop/ says as much
			made("g++", "-std=c++17", "-fsyntax-only", s+".c++")
		}
		made("capnp", "compile", "-oc++", s) // each by itself, too
		if s == "schema/go.capnp" {
			continue
		}
		header, err := os.ReadFile(filepath.Join(dir, s+".h"))
		if ok(t, err); !strings.Contains(string(header), "namespace capd {") {
			t.Errorf("what is made of %s is not in the namespace capd", s)
		}
	}
}

// keywords of Python, whose clients name fields as they are.
var keywords = strings.Fields(`False None True and as assert async await break class continue def del elif else except finally for from
	global if import in is lambda nonlocal not or pass raise return try while with yield`)

// No name of the schema is one that a language keeps for itself.
func TestSchemaKeywords(t *testing.T) {
	schemas, err := filepath.Glob("../schema/*.capnp")
	ok(t, err)
	names := 0
	for _, file := range schemas {
		if filepath.Base(file) == "go.capnp" {
			continue // in which import is capnpc-go's
		}
		b, err := os.ReadFile(file)
		ok(t, err)
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, "#")
			for _, name := range regexp.MustCompile(`(\w+) *(?:@\d|:)`).FindAllStringSubmatch(line, -1) {
				if names++; slices.Contains(keywords, name[1]) {
					t.Errorf("%s: %s is a keyword of Python", filepath.Base(file), name[1])
				}
			}
		}
	}
	if names < 300 {
		t.Errorf("%d names were found", names)
	}
}
