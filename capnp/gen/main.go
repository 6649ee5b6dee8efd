// Command gen turns Cap'n Proto schemas into Go for package vat: those of this module, or another's.
//
//	go run ./capnp/gen                    # schema/*.capnp -> capnp/*.capnp.go
//	go run ./capnp/gen DIR                # DIR/*.capnp    -> DIR/*.capnp.go
//	go run ./capnp/gen SCHEMADIR OUTDIR
//	go run ./capnp/gen -check [...]       # exit 1 if the committed output is not current
//
// A go.capnp in the directory is for imports alone; schemas may import "/go.capnp" without one.
//
// It runs the schema compiler and capnpc-go, and then rewrites what that emits so that nothing of
// go-capnp's own RPC is left: interfaces become typed method descriptors for package vat, capability
// fields become raw capnp.Interface pointers, and reading the wrong member of a union yields the zero
// value instead of a panic, since a union's discriminant is chosen by the peer.
//
// The output depends on the schemas and the pinned go-capnp version only.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	check := flag.Bool("check", false, "compare with the committed output and write nothing")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: gen [-check] [SCHEMADIR [OUTDIR]]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(check bool, args []string) error {
	schemaDir, outDir := "schema", "capnp"
	switch len(args) {
	case 0:
	case 1:
		schemaDir, outDir = args[0], args[0]
	case 2:
		schemaDir, outDir = args[0], args[1]
	default:
		return errors.New("at most two arguments: SCHEMADIR OUTDIR")
	}
	files, err := generate(schemaDir)
	if err != nil {
		return err
	}
	return update(outDir, files, check)
}

// annotations is the file that declares capnpc-go's annotations, where a directory has one of its own.
// There is nothing in it to make Go of.
const annotations = "go.capnp"

// generate returns the Go sources, by file name, for every schema in dir.
func generate(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	schemas, err := filepath.Glob(filepath.Join(dir, "*.capnp"))
	if err != nil {
		return nil, err
	}
	schemas = slices.DeleteFunc(schemas, func(p string) bool { return filepath.Base(p) == annotations })
	if len(schemas) == 0 {
		return nil, fmt.Errorf("no *.capnp in %s", dir)
	}
	request, err := compile(dir, schemas)
	if err != nil {
		return nil, err
	}
	raw, err := plainGo(request)
	if err != nil {
		return nil, err
	}
	return rewrite(request, raw)
}

// compile runs the schema compiler and returns its CodeGeneratorRequest, unpacked.
func compile(dir string, schemas []string) ([]byte, error) {
	compiler, err := exec.LookPath("capnp")
	if err != nil {
		return nil, errors.New("the schema compiler `capnp` is not installed (Debian: apt install capnproto)")
	}
	std, err := output(exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "capnproto.org/go/capnp/v3"))
	if err != nil {
		return nil, err
	}
	// dir comes first: go-capnp's own schemas import "/go.capnp", and no file may be there twice.
	args := []string{
		"compile", "--no-standard-import", "-I" + dir, "-I" + filepath.Join(strings.TrimSpace(string(std)), "std"),
		"--src-prefix=" + dir, "-o-",
	}
	return output(exec.Command(compiler, append(args, schemas...)...))
}

// plainGo runs capnpc-go on a CodeGeneratorRequest and returns the files it writes.
func plainGo(request []byte) (map[string][]byte, error) {
	tool, err := output(exec.Command("go", "tool", "-n", "capnpc-go"))
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "capnpc-go")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	cmd := exec.Command(strings.TrimSpace(string(tool)), "-promises=false", "-schemas=false", "-structstrings=false")
	cmd.Dir = tmp
	cmd.Stdin = bytes.NewReader(request)
	if _, err := output(cmd); err != nil {
		return nil, err
	}
	return read(tmp)
}

// read returns the generated files of dir by name.
func read(dir string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.capnp.go"))
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(p)] = b
	}
	return files, nil
}

// update makes files the generated files of a directory. With check it only fails if they are not.
func update(dir string, files map[string][]byte, check bool) error {
	old, err := read(dir)
	if err != nil {
		return err
	}
	var stale []string
	for name := range old {
		if _, ok := files[name]; !ok {
			stale = append(stale, name)
		}
	}
	for name, b := range files {
		if !bytes.Equal(old[name], b) {
			stale = append(stale, name)
		}
	}
	if slices.Sort(stale); check && len(stale) > 0 {
		return fmt.Errorf("not current: %s; run `go run ./capnp/gen`", strings.Join(stale, ", "))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range stale {
		if b, ok := files[name]; ok {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), b, 0o644))
		} else {
			err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// output runs cmd; a failure carries what it wrote to standard error.
func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, stderr.String())
	}
	return out, nil
}
