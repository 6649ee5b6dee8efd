package cas

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// KillAt names the environment variable that ends the process, as kill -9 does, at a
// step: "name n" at the nth time that it comes there.
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

// Touch gives a file the time that it is, and TouchAlone says that two must not do so
// at once.
func Touch(path string) error { return touch(path) }

const TouchAlone = touchAlone
