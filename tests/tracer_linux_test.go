package tests

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func init() { others["tracer"] = trace }

// tracer runs a program and kills it with SIGKILL just after a system call that changes what is on disk. See ptrace(2).
type tracer struct {
	pid   int
	begun map[int]string // by thread: the step that it is in

	mu    sync.Mutex
	limit int // the step to kill after, counted from the last arm; 0 is none
	steps int
	last  string
}

// trace is a program of its own: N PROGRAM ARG…. It runs PROGRAM and kills it after its Nth step. On lines of its input
// "arm N" counts anew, "hangup" sends it SIGHUP, and "kill" kills at once. At the end it prints after which step it was killed, or "ended".
func trace(args []string) {
	runtime.LockOSThread() // one thread traces
	limit, err := strconv.Atoi(args[0])
	fatal(err)
	p, err := os.StartProcess(args[1], args[1:], &os.ProcAttr{
		Files: []*os.File{nil, os.Stderr, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	fatal(err)
	t := &tracer{pid: p.Pid, begun: map[int]string{}, limit: limit}
	go t.obey()
	_, err = syscall.Wait4(t.pid, nil, syscall.WALL, nil) // it stops when it begins
	fatal(err)
	fatal(syscall.PtraceSetOptions(t.pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL))
	fatal(syscall.PtraceSyscall(t.pid, 0))
	for t.next() {
	}
	if t.limit > 0 && t.steps >= t.limit {
		fmt.Println("killed after", t.last)
		return
	}
	fmt.Println("ended")
}

// obey reads commands.
func (t *tracer) obey() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "hangup" {
			_ = syscall.Kill(t.pid, syscall.SIGHUP)
			continue
		}
		if n, ok := strings.CutPrefix(in.Text(), "arm "); ok {
			limit, err := strconv.Atoi(n)
			fatal(err)
			t.mu.Lock()
			t.limit, t.steps = limit, 0
			t.mu.Unlock()
			fmt.Println("armed")
			continue
		}
		break
	}
	_ = syscall.Kill(t.pid, syscall.SIGKILL) // also if nobody is left who could say so
}

// next waits until a thread stops, and lets it go on. It reports whether any is left.
func (t *tracer) next() bool {
	var s syscall.WaitStatus
	tid, err := syscall.Wait4(-1, &s, syscall.WALL, nil)
	switch {
	case err == syscall.EINTR:
		return true
	case err == syscall.ECHILD:
		return false
	case err != nil:
		fatal(err)
	case !s.Stopped():
		return true
	}
	deliver := 0
	switch sig := s.StopSignal(); sig {
	case syscall.SIGTRAP | 0x80: // it enters a system call or leaves one
		t.step(tid)
	case syscall.SIGTRAP: // it begins or has made a thread
	case syscall.SIGSTOP: // a new thread
	default:
		deliver = int(sig)
	}
	_ = syscall.PtraceSyscall(tid, deliver) // it may have been killed meanwhile
	return true
}

// callInfo is what the kernel tells of a system call: struct ptrace_syscall_info.
type callInfo struct {
	op     uint8 // 1: it begins; 2: it ends
	_      [3]byte
	_      uint32
	_, _   uint64
	number uint64 // of the call; the result at its end
	args   [6]uint64
}

// step counts a call that changes what is on disk when it ends, and kills after the last one.
func (t *tracer) step(tid int) {
	var c callInfo
	_, _, e := syscall.Syscall6(syscall.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(c), uintptr(unsafe.Pointer(&c)), 0, 0)
	if e != 0 {
		return // it was killed
	}
	if c.op == 1 {
		t.begun[tid] = t.changes(int(c.number), c.args)
		return
	}
	what := t.begun[tid]
	delete(t.begun, tid)
	if what == "" || int64(c.number) < 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit > 0 && t.steps >= t.limit {
		return
	}
	if t.steps, t.last = t.steps+1, what; t.steps == t.limit {
		_ = syscall.Kill(t.pid, syscall.SIGKILL)
	}
}

// changing are the system calls that change what is on disk.
var changing = map[int]string{
	unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FALLOCATE: "fallocate",
	unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_OPENAT: "open", unix.SYS_MKDIRAT: "mkdir",
	unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename", unix.SYS_LINKAT: "link", unix.SYS_SYMLINKAT: "symlink",
	unix.SYS_UNLINKAT: "unlink", unix.SYS_FCHMOD: "chmod", unix.SYS_FCHMODAT: "chmod",
}

// changes returns what a call does to which file or directory, or "" if it changes nothing on disk.
func (t *tracer) changes(number int, args [6]uint64) string {
	name := changing[number]
	switch {
	case name == "" || name == "open" && args[2]&unix.O_CREAT == 0:
		return ""
	case name == "open" || name == "symlink":
		return name
	}
	file, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, int32(args[0])))
	if name == "write" && (!filepath.IsAbs(file) || strings.HasPrefix(file, "/dev/")) {
		return "" // a socket or a pipe
	}
	return name + " " + filepath.Base(file)
}

func fatal(err error) {
	if err != nil {
		panic(err)
	}
}
