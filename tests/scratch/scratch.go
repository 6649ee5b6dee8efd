// Package scratch has tests keep their files in memory where the system has a
// place for that: they make and remove files by the hundred thousand, and a disk
// that is asked for so much is what most of them would wait for.
//
// With TMPDIR set they keep them where it says.
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
	prefix  = "capd-tests-" // then the process's id
	diskVar = "CAPD_TESTS_DISK"
)

// Memory returns a directory whose file system keeps nothing on a disk, with room
// for a GiB at first, or "" where there is none. It is this process's own and goes
// at the end of Run, or with Remove.
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

// Disk returns the directory for what has to be on a disk: that for temporary
// files as it was before Run.
func Disk() string {
	if dir := os.Getenv(diskVar); dir != "" {
		return dir
	}
	return os.TempDir()
}

// Run is m.Run with temporary files in Memory, this process's and its children's.
func Run(m *testing.M) int {
	if os.Getenv("TMPDIR") == "" && Memory() != "" {
		os.Setenv(diskVar, os.TempDir())
		os.Setenv("TMPDIR", Memory())
	}
	defer Remove()
	return m.Run()
}

// Remove removes Memory, for who runs m.Run himself.
func Remove() {
	if dir := Memory(); dir != "" {
		os.RemoveAll(dir)
	}
}

// sweep removes what runs that were killed have left: it lies in memory.
func sweep() {
	all, _ := filepath.Glob(filepath.Join(memory, prefix+"*"))
	for _, dir := range all {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), prefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && !alive(n) {
			os.RemoveAll(dir)
		}
	}
}
