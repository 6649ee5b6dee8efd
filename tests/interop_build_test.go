package tests

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The programs of interop/ use Cap'n Proto's C++ library, another implementation of the
// protocol. They are built here, once for each state of their sources and tools, and kept
// in the user's cache.

var (
	cxxTools     = []string{"capnp", "g++"}
	cxxFlags     = []string{"-std=c++17", "-O0"} // a fast build matters more than fast code
	cxxLibraries = []string{"-lcapnp-rpc", "-lcapnp", "-lkj-async", "-lkj"}
	cxxPrograms  = []string{"interop/client", "interop/server", "interop/peer", "clients/cxx"}
	cxxSchemas   = []string{"../schema/*.capnp", "interop/order/order.capnp"}
)

var cxxBuilt struct {
	once sync.Once
	dir  string
	err  error
}

// cxx returns the path of the C++ program whose sources are in a directory called name.
func cxx(t testing.TB, name string) string {
	t.Helper()
	needCxx(t)
	cxxBuilt.once.Do(func() { cxxBuilt.dir, cxxBuilt.err = buildCxx(t) })
	ok(t, cxxBuilt.err)
	return filepath.Join(cxxBuilt.dir, name)
}

// needCxx skips t if C++ programs cannot be built, or fails it under CI.
func needCxx(t testing.TB) {
	t.Helper()
	missing := cxxMissing()
	if missing == "" {
		return
	}
	text := missing + " is not installed (Debian: apt install capnproto libcapnp-dev g++)"
	if os.Getenv("CI") != "" || os.Getenv("CAPD_CI") != "" {
		t.Fatal(text)
	}
	t.Skip(text)
}

// cxxMissing returns what is missing to build C++ programs, or "".
func cxxMissing() string {
	for _, tool := range cxxTools {
		if _, err := exec.LookPath(tool); err != nil {
			return tool
		}
	}
	look := exec.Command("g++", "-E", "-x", "c++", "-")
	look.Stdin = strings.NewReader("#include <capnp/rpc-twoparty.h>")
	if look.Run() != nil {
		return "libcapnp-dev"
	}
	return ""
}

// buildCxx returns the directory of the built programs.
func buildCxx(t testing.TB) (string, error) {
	key, err := cxxKey()
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "capd-interop")
		err = os.MkdirAll(cache, 0o755)
	}
	if err != nil { // there is no cache to keep them in
		capd(t)
		cache = built.dir
	}
	dir := filepath.Join(cache, key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tmp, err := os.MkdirTemp(cache, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	start := time.Now()
	if err := compileCxx(tmp); err != nil {
		return "", err
	}
	t.Logf("built the C++ programs in %.1f s", time.Since(start).Seconds())
	// Another process may have been faster.
	if err := os.Rename(tmp, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return dir, forget(cache, dir)
}

// forget removes what is older than a week from the cache, except dir.
func forget(cache, dir string) error {
	all, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	for _, e := range all {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > 7*24*time.Hour && e.Name() != filepath.Base(dir) {
			os.RemoveAll(filepath.Join(cache, e.Name()))
		}
	}
	return nil
}

// cxxKey returns a key for the state of the sources and of the tools.
func cxxKey() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, cxxFlags, cxxLibraries)
	for _, tool := range cxxTools {
		out, err := exec.Command(tool, "--version").Output()
		if err != nil {
			return "", fmt.Errorf("%s --version: %w", tool, err)
		}
		sum.Write(out)
	}
	for _, pattern := range append([]string{"interop/*/*.c++", "interop/*/*.h", "clients/*/*.c++"}, cxxSchemas...) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(sum, f, len(b))
			sum.Write(b)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:16]), nil
}

// compileCxx builds the programs in dir.
func compileCxx(dir string) error {
	generated := filepath.Join(dir, "generated")
	if err := os.Mkdir(generated, 0o755); err != nil {
		return err
	}
	for _, pattern := range cxxSchemas {
		if err := compileSchemas(pattern, generated); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, len(cxxPrograms))
	for i, sources := range cxxPrograms {
		wg.Go(func() {
			errs[i] = compileProgram(filepath.Join(dir, filepath.Base(sources)), generated, filepath.FromSlash(sources))
		})
	}
	wg.Wait()
	os.RemoveAll(generated)
	return errors.Join(errs...)
}

// compileSchemas compiles the schemas that match pattern to C++ in dir. Those of capd
// import only schemas beside them. Others may import go-capnp's annotations.
func compileSchemas(pattern, dir string) error {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	args := []string{"compile", "--src-prefix=" + filepath.Dir(pattern), "-oc++:" + dir}
	if _, err := os.Stat(filepath.Join(filepath.Dir(pattern), "go.capnp")); err != nil {
		std, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "capnproto.org/go/capnp/v3").Output()
		if err != nil {
			return err
		}
		args = append(args, "-I"+filepath.Join(strings.TrimSpace(string(std)), "std"))
	}
	return tool("capnp", append(args, files...)...)
}

// compileProgram compiles all sources in dirs as one file. That takes half as long as one
// by one, since most of the time goes into the library's headers.
func compileProgram(program string, dirs ...string) error {
	var sources strings.Builder
	args := slices.Clone(cxxFlags)
	for _, dir := range dirs {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		args = append(args, "-I"+dir)
		files, err := filepath.Glob(filepath.Join(dir, "*.c++"))
		if err != nil {
			return err
		}
		for _, f := range files {
			fmt.Fprintf(&sources, "#include %q\n", f)
		}
	}
	unit := program + ".c++"
	if err := os.WriteFile(unit, []byte(sources.String()), 0o644); err != nil {
		return err
	}
	defer os.Remove(unit)
	return tool("g++", slices.Concat(args, []string{"-o", program, unit}, cxxLibraries)...)
}

// tool runs a program and shows its output only if it fails.
func tool(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
