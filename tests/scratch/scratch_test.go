package scratch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"capd/tests/scratch"
)

const shared = "/dev/shm"

// gone is named after a process that cannot exist.
var gone = filepath.Join(shared, "capd-tests-999999999-1")

func TestMain(m *testing.M) {
	_ = os.Mkdir(gone, 0o700)
	os.Exit(scratch.Run(m))
}

func TestRun(t *testing.T) {
	if os.Getenv("CAPD_TESTS_DISK") == "" {
		t.Log("temporary files are where the system or TMPDIR has them")
		return
	}
	if dir := t.TempDir(); !strings.HasPrefix(dir, scratch.Memory()) || !strings.HasPrefix(dir, shared) {
		t.Errorf("a temporary directory is %s", dir)
	}
	if dir := scratch.Disk(); strings.HasPrefix(dir, shared) {
		t.Errorf("on disk is %s", dir)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("what a killed run has left is there: %v", err)
	}
}
