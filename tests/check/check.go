// Package check has the few assertions that the tests of capd share. Everything else is an
// if with t.Errorf, as the standard library's tests write it.
package check

import (
	"testing"
	"time"

	"capd/vfs"
)

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// Code fails the test unless err has the code want; "" means no error. what says what
// was tried.
func Code(t testing.TB, what string, err error, want vfs.Code) {
	t.Helper()
	if got := vfs.CodeOf(err); got != want {
		t.Errorf("%s: %q (%v), want %q", what, got, err, want)
	}
}

// Eventually waits until cond holds. It ends the test if that takes more than 10 s. what
// names the condition.
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}
