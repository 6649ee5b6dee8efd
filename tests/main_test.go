package tests

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/tests/scratch"
	"capd/vfs/vfstest/check"
)

// others are programs that tests run in processes of their own: this binary,
// with otherVar set to "name", "arg", … on lines.
var others = map[string]func(args []string){}

const otherVar = "CAPD_TESTS_OTHER"

// thorough means that repeated attempts are made more often, as in .ci/run.
var thorough = os.Getenv("CAPD_CI") != ""

// times returns how many attempts to make: n, or all if thorough.
func times(n, all int) int {
	if thorough {
		return all
	}
	return n
}

// atEnd runs when all tests are over.
var atEnd []func()

// raceBuilt means that this binary, and so capd, has the race detector.
var raceBuilt bool

// endsAtOnce is in the environment of programs that may have the race detector, with which each would wait for a second at
// its end.
const endsAtOnce = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if args := strings.Split(os.Getenv(otherVar), "\n"); args[0] != "" {
		others[args[0]](args[1:])
		os.Exit(0)
	}
	if r, w, err := os.Pipe(); err == nil { // so that the runtime has opened its own descriptors
		r.Close()
		w.Close()
	}
	fds, routines := openFiles("self"), runtime.NumGoroutine()
	waitTogether()
	code := m.Run()
	for _, f := range atEnd {
		f()
	}
	scratch.Remove()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	if leaked := leaks(fds, routines); leaked != "" && code == 0 {
		fmt.Println("left behind by the tests:", leaked)
		code = 1
	}
	attacks.report()
	if missing := attacks.missing(); code == 0 && len(missing) > 0 && os.Getenv(ownMountsVar) == "" {
		fmt.Println("fewer attacks than there should be:", strings.Join(missing, "\n"))
		code = 1
	}
	os.Exit(code)
}

// waitTogether allows more parallel tests than there are processors, unless the
// command line sets a number. Most tests wait for other processes.
func waitTogether() {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		_ = flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0)))
	}
}

// leaks waits for descriptors and goroutines to end, and reports those that do
// not.
func leaks(fds, routines int) string {
	// The garbage collector may still have to close the descriptor of an ended
	// process.
	ok := waitFor(5*time.Second, func() bool {
		runtime.GC()
		return runtime.NumGoroutine() <= routines && openFiles("self") <= fds
	})
	if ok {
		return ""
	}
	if runtime.NumGoroutine() > routines {
		pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
	}
	return fmt.Sprintf("%d descriptors, of %d before; %d goroutines, of %d before", openFiles("self"), fds, runtime.NumGoroutine(), routines)
}

// openFiles returns how many descriptors a process has open, or 0 if that is
// unknown.
func openFiles(pid string) int {
	all, _ := os.ReadDir("/proc/" + pid + "/fd")
	return len(all)
}

// waitFor polls until cond holds, and reports whether it did within limit.
func waitFor(limit time.Duration, cond func() bool) bool {
	for start := time.Now(); time.Since(start) < limit; time.Sleep(10 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// builtHere is the path of the program, if another process has built it.
var builtHere string

// capd returns the path of the real program, which it builds once.
func capd(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "capd"); built.err != nil {
			return
		}
		args := []string{"build", "-o", built.dir + string(filepath.Separator)}
		if raceBuilt {
			args = append(args, "-race")
		}
		if out, err := exec.Command("go", append(args, "capd/cmd/capd")...).CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	ok(t, built.err)
	if builtHere != "" {
		return builtHere
	}
	return filepath.Join(built.dir, "capd")
}

// start starts one of the others. It is killed at the end of the test.
func start(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program(name, args...)
	ok(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), otherVar+"="+strings.Join(append([]string{name}, args...), "\n"))
	cmd.Stderr = os.Stderr
	return cmd
}

var ok = check.OK

// closes reports whether c is closed within the usual time limit.
func closes(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-time.After(3 * patience):
		return false
	}
}
