package authority_test

import (
	"os"
	"testing"

	"capd/tests/scratch"
)

// TestMain keeps the state of hosts in memory: the tests would mainly wait for the disk.
func TestMain(m *testing.M) { os.Exit(scratch.Run(m)) }
