package cas_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"capd/tests/scratch"
)

// other are the programs that tests run as processes of their own: this binary with
// otherVar set to "name\narg…".
var other = map[string]func(args []string) error{}

const otherVar = "CAPD_CAS_TEST_OTHER"

func TestMain(m *testing.M) {
	if args := strings.Split(os.Getenv(otherVar), "\n"); args[0] != "" {
		if err := other[args[0]](args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, args[0]+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if r, w, err := os.Pipe(); err == nil { // so that the runtime has its own descriptors
		r.Close()
		w.Close()
	}
	before := descriptors()
	code := scratch.Run(m)
	for range 100 {
		if len(descriptors()) <= len(before) {
			break
		}
		runtime.GC() // the suite leaves nodes open, and their leases with them
		time.Sleep(10 * time.Millisecond)
	}
	if left := descriptors(); len(left) > len(before) && code == 0 {
		fmt.Printf("descriptors before the tests: %q, and after: %q\n", before, left)
		code = 1
	}
	os.Exit(code)
}

// descriptors returns the files that this process has open, on systems that can tell.
func descriptors() []string {
	all, _ := os.ReadDir("/proc/self/fd")
	var files []string
	for _, e := range all {
		if file, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil { // or it was the listing's own
			files = append(files, file)
		}
	}
	return files
}

// leavesNothingOpen checks that no file below dir is open when the test has ended.
func leavesNothingOpen(t testing.TB, dir string) {
	t.Cleanup(func() {
		for _, file := range descriptors() {
			if strings.HasPrefix(file, dir) {
				t.Errorf("%s is left open", strings.TrimPrefix(file, dir))
			}
		}
	})
}

// program returns one of the other programs, not started.
func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVar+"="+strings.Join(append([]string{name}, args...), "\n"))
	cmd.Stderr = os.Stderr
	return cmd
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
