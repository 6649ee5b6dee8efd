package physical_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"capd/backend/physical"
	"capd/tests/scratch"
	"capd/vfs"
)

// other are the programs that tests run as processes of their own: this binary with
// otherVar set to "name arg...".
var other = map[string]func(args []string){}

const otherVar = "CAPD_PHYSICAL_TEST_OTHER"

func TestMain(m *testing.M) {
	if args := strings.Split(os.Getenv(otherVar), "\n"); args[0] != "" {
		other[args[0]](args[1:])
		os.Exit(0)
	}
	restrict()
	if r, w, err := os.Pipe(); err == nil { // so that the runtime has its own descriptors
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := scratch.Run(m)
	if left := settledDescriptors(before); left > before && code == 0 {
		fmt.Printf("%d descriptors before the tests and %d after:\n", before, left)
		for fd := range 256 {
			if to, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil {
				fmt.Println(fd, to)
			}
		}
		code = 1
	}
	os.Exit(code)
}

// run starts one of the other programs. It is killed at the test's end.
func run(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVar+"="+strings.Join(append([]string{name}, args...), "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

// descriptors returns how many descriptors this process has open, or 0 if that cannot be
// found out.
func descriptors() int {
	all, _ := os.ReadDir("/proc/self/fd")
	return len(all)
}

// settledDescriptors waits for files that are about to be closed.
func settledDescriptors(want int) int {
	for range 500 {
		if descriptors() <= want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return descriptors()
}

// served is a directory and a store that serves it.
type served struct {
	*testing.T
	ctx   context.Context
	dir   string
	store *physical.Store
	root  vfs.Dir
}

// both runs test on a fresh directory in each mode.
func both(t *testing.T, test func(t *testing.T, w served)) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) { test(t, serve(t, o)) })
	}
}

func serve(t *testing.T, o physical.Options) served {
	dir := filepath.Join(t.TempDir(), "served")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, o)
	return served{t, t.Context(), dir, s, s.Root()}
}

func (w served) kernel() bool { return w.store.Confinement() == "kernel" }

// host is the host's path of a path in the served directory.
func (w served) host(path string) string { return filepath.Join(w.dir, path) }

func (w served) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// is checks that err has one of the codes and names nothing of the host.
func (w served) is(what string, err error, codes ...vfs.Code) {
	w.Helper()
	if !slices.Contains(codes, vfs.CodeOf(err)) {
		w.Errorf("%s: %v, want %v", what, err, codes)
	}
	if err != nil && (strings.Contains(err.Error(), w.dir) || strings.Contains(err.Error(), "served/")) {
		w.Errorf("%s: the error names a host path: %v", what, err)
	}
}

func (w served) write(path, data string) {
	w.Helper()
	w.ok(os.WriteFile(w.host(path), []byte(data), 0o644))
}

func (w served) mkdir(path string) {
	w.Helper()
	w.ok(os.MkdirAll(w.host(path), 0o755))
}

// has checks what the host sees at path.
func (w served) has(path, want string) {
	w.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		w.Errorf("%s holds %q (%v), want %q", filepath.Base(path), b, err, want)
	}
}

func (w served) at(path string) vfs.Node {
	w.Helper()
	n, err := walk(w.ctx, w.root, path)
	w.ok(err)
	return n
}

func (w served) file(path string) vfs.File { w.Helper(); return w.at(path).(vfs.File) }
func (w served) sub(path string) vfs.Dir   { w.Helper(); return w.at(path).(vfs.Dir) }

func walk(ctx context.Context, d vfs.Dir, path string) (vfs.Node, error) {
	var n vfs.Node = d
	for name := range strings.SplitSeq(path, "/") {
		d, ok := n.(vfs.Dir)
		if !ok {
			return nil, vfs.NotDir
		}
		var err error
		if n, err = d.Lookup(ctx, name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (w served) read(f vfs.File) (string, error) {
	c, err := vfs.Open(w.ctx, f)
	if err != nil {
		return "", err
	}
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	return string(b), err
}

func (w served) put(d vfs.Dir, name, data string, c vfs.If) error {
	_, err := d.Replace(w.ctx, name, strings.NewReader(data), c)
	return err
}

func names(t testing.TB, d vfs.Dir) (all []string) {
	t.Helper()
	for e, err := range d.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Name)
	}
	return all
}

// within fails the test if f takes longer than 2 s in its best of three runs.
func (w served) within(what string, f func()) {
	w.Helper()
	best := time.Hour
	for range 3 {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	if best > 2*time.Second {
		w.Errorf("%s took %v, want less than 2 s", what, best)
	}
}

// everyChange tries every change of d, with this name where a change takes one.
func everyChange(ctx context.Context, d vfs.Dir, name string) map[string]error {
	_, create := d.Create(ctx, name)
	_, mkdir := d.Mkdir(ctx, name)
	_, put := d.Replace(ctx, name, strings.NewReader("x"), vfs.If{})
	return map[string]error{
		"Create":    create,
		"Mkdir":     mkdir,
		"Replace":   put,
		"Remove":    d.Remove(ctx, name, vfs.If{}),
		"Rename":    d.Rename(ctx, name, d, "elsewhere", vfs.If{}, vfs.If{}),
		"Rename to": d.Rename(ctx, "f", d, name, vfs.If{}, vfs.If{}),
	}
}

// untried says why something cannot be tried here. That is a failure where everything
// must be tried.
func untried(t testing.TB, why string, args ...any) {
	t.Helper()
	why = fmt.Sprintf("not tried: "+why, args...)
	if os.Getenv("CI") != "" || os.Getenv("CAPD_CI") != "" {
		t.Error(why)
		return
	}
	t.Log(why)
}

func hasNothingElse(t *testing.T, dir string, want ...string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the directory holds %q, want %q", got, want)
	}
}
