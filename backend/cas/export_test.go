package cas

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// KillAt names the environment variable that ends the process at a step, as kill -9 does:
// "name n" is the nth time that it reaches the step name.
const KillAt = "CAPD_CAS_TEST_KILL_AT"

func init() {
	name, n, ok := strings.Cut(os.Getenv(KillAt), " ")
	if !ok {
		return
	}
	at, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		panic(err)
	}
	var passed atomic.Int64
	step = func(s string) {
		if s == name && passed.Add(1) == at {
			self, err := os.FindProcess(os.Getpid())
			if err == nil {
				err = self.Kill()
			}
			if err != nil {
				panic(err)
			}
			select {} // until it happens
		}
	}
}

// AtStep calls f at every step from now on, until undo is called.
func AtStep(f func(string)) (undo func()) {
	before := step
	step = f
	return func() { step = before }
}

// Touch sets the time of a file to the present. TouchAlone says that two callers must not
// do so at once.
func Touch(path string) error { return touch(path) }

const TouchAlone = touchAlone
