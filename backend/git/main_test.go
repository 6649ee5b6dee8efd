package git_test

import (
	"fmt"
	"os"
	"testing"

	"capd/tests/scratch"
)

// otherVar is set in a process that runs no tests. It is this binary, and the value names
// the entry of other that it runs.
const otherVar = "CAPD_GIT_TEST_OTHER"

var other func(arg string) error

func TestMain(m *testing.M) {
	if arg := os.Getenv(otherVar); arg != "" {
		if err := other(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(scratch.Run(m))
}
