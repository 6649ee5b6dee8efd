package peers

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"capd/bench/cxx"
	"capd/bench/proto"
)

// CXX is the C++ implementation of Cap'n Proto. It is compiled here when it is first
// needed.
var CXX = &Contender{
	Name:    "C++",
	About:   "Cap'n Proto in C++ at both ends, with kj's event loop, g++ -O2",
	Ops:     capnpOps,
	Version: cxxVersion,
	Command: func(p Place) *exec.Cmd { return exec.Command(cxxProgram.name, "server", p.Table, p.Address) },
	Address: func(p Place, line string) (string, bool) { return p.Address, line == "ready" },
	ClientCommand: func(p Place) *exec.Cmd {
		return exec.Command(cxxProgram.name, "client", p.Table, p.Address)
	},
}

var cxxProgram struct {
	once sync.Once
	name string
	err  error
}

// cxxVersion compiles the contender, unless this source was compiled before.
func cxxVersion(p Place) (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", errors.New("it is written for amd64")
	}
	for _, tool := range []string{"g++", "capnp"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s is not installed (Debian: g++, capnproto, libcapnp-dev)", tool)
		}
	}
	version, err := exec.Command("capnp", "--version").Output()
	if err != nil {
		return "", err
	}
	v := strings.TrimSpace(strings.TrimPrefix(string(version), "Cap'n Proto version "))
	cxxProgram.once.Do(func() { cxxProgram.name, cxxProgram.err = compileCXX(p.Cache, v) })
	return v, cxxProgram.err
}

// compileCXX compiles the contender and returns its path.
func compileCXX(cache, version string) (string, error) {
	// Annotations for Go are of no use here, and their schema is not installed.
	var schema bytes.Buffer
	for line := range strings.Lines(proto.Schema) {
		if !strings.Contains(line, "Go") {
			schema.WriteString(line)
		}
	}
	key := sha256.Sum256([]byte(version + cxx.Source + schema.String()))
	program := filepath.Join(cache, fmt.Sprintf("contender-%x", key[:8]))
	if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
		return program, err
	}
	dir, err := os.MkdirTemp("", "capd-bench-cxx")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "bench.capnp"), schema.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "contender.cpp"), []byte(cxx.Source), 0o644)); err != nil {
		return "", err
	}
	built := program + ".new"
	for _, c := range [][]string{
		{"capnp", "compile", "-oc++", "bench.capnp"},
		{"g++", "-std=c++17", "-O2", "-msse4.2", "-I.", "-o", built, "contender.cpp", "bench.capnp.c++", "-lcapnp-rpc", "-lcapnp", "-lkj-async", "-lkj"},
	} {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w (Debian: libcapnp-dev)\n%s", c[0], err, out)
		}
	}
	return program, os.Rename(built, program)
}
