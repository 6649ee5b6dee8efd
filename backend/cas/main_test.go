package cas_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// other are the programs that tests run beside themselves, as processes of their own:
// this binary with otherVar set to "name\narg…".
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
	before := descriptors()
	code := m.Run()
	for range 100 { // for what is about to be closed
		if descriptors() <= before+4 { // the runtime's own
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if left := descriptors(); left > before+4 && code == 0 {
		fmt.Printf("%d descriptors before the tests and %d after\n", before, left)
		code = 1
	}
	os.Exit(code)
}

// descriptors is how many this process has open, and 0 where nobody can tell.
func descriptors() int {
	all, _ := os.ReadDir("/proc/self/fd")
	return len(all)
}

// program is one of the other programs, not started.
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
