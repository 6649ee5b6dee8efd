// Package scratch keeps the files of tests in memory, if the system has a place
// for that. Tests make and remove hundreds of thousands of files, and on a disk
// most of them would mainly wait for it.
//
// If TMPDIR is set, the files are there instead.
package scratch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	prefix  = "capd-tests-" // followed by the process's id
	diskVar = "CAPD_TESTS_DISK"
)

// Memory returns a directory in memory, with about 1 GiB of room when it is made,
// or "" if there is none. It belongs to this process. Run removes it at its end,
// and so does Remove.
var Memory = sync.OnceValue(func() string {
	if memory == "" {
		return ""
	}
	sweep()
	dir, err := os.MkdirTemp(memory, fmt.Sprintf("%s%d-", prefix, os.Getpid()))
	if err != nil {
		return ""
	}
	return dir
})

// Disk returns a directory on a disk: the one for temporary files before Run.
func Disk() string {
	if dir := os.Getenv(diskVar); dir != "" {
		return dir
	}
	return os.TempDir()
}

// Run is m.Run with temporary files of this process and its children in Memory.
func Run(m *testing.M) int {
	if os.Getenv("TMPDIR") == "" && Memory() != "" {
		os.Setenv(diskVar, os.TempDir())
		os.Setenv("TMPDIR", Memory())
	}
	defer Remove()
	return m.Run()
}

// Remove removes Memory, for callers that run m.Run themselves.
func Remove() {
	if dir := Memory(); dir != "" {
		os.RemoveAll(dir)
	}
}

// sweep removes what killed runs have left, since it uses memory.
func sweep() {
	all, _ := filepath.Glob(filepath.Join(memory, prefix+"*"))
	for _, dir := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && !alive(n) {
			os.RemoveAll(dir)
		}
	}
}
