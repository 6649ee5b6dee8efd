package client_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"capd/tests/scratch"
)

// TestMain checks after all tests that nothing is left of them.
func TestMain(m *testing.M) {
	if r, w, err := os.Pipe(); err == nil { // so that the runtime has its own descriptors
		r.Close()
		w.Close()
	}
	goroutines, descriptors := runtime.NumGoroutine(), openDescriptors()
	code := scratch.Run(m)
	if code == 0 && !eventually(func() bool { return runtime.NumGoroutine() <= goroutines && openDescriptors() <= descriptors }) {
		stacks := make([]byte, 1<<20)
		fmt.Printf("before the tests %d goroutines and %d descriptors, after them %d and %d\n%s\n",
			goroutines, descriptors, runtime.NumGoroutine(), openDescriptors(), stacks[:runtime.Stack(stacks, true)])
		code = 1
	}
	os.Exit(code)
}

// openDescriptors counts the open descriptors of this process, on systems that can tell.
func openDescriptors() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}

// eventually waits until cond holds, and reports whether it does.
func eventually(cond func() bool) bool {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return true
		}
	}
	return cond()
}
