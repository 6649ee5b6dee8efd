package server_test

import (
	"os"
	"testing"

	"capd/tests/scratch"
)

// TestMain removes what the tests of power cuts have kept in memory.
func TestMain(m *testing.M) {
	code := m.Run()
	scratch.Remove()
	os.Exit(code)
}
