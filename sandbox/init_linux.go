package sandbox

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// The descriptors that Init starts with, besides the first three.
const (
	infoFD   = 3 + iota // bubblewrap's
	specFD              // what to do; closed once the run is watched
	statusFD            // Init's progress
)

// argsFD has the arguments of bubblewrap, which closes it.
const argsFD = statusFD + 1

// spec is what Init is to do.
type spec struct {
	Args, Env []string
	Dir       string
	UID, GID  int
	Switch    bool // switch to UID and GID
	Limits    Limits
}

// status is what Init reports: first that the program begins, and then an error if it
// could not.
type status struct {
	Begins bool
	Failed string
	Code   vfs.Code
}

func codeOf(err error) vfs.Code {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return vfs.NotFound
	case errors.Is(err, syscall.EISDIR):
		return vfs.IsDir
	case errors.Is(err, fs.ErrPermission):
		return vfs.Denied
	case errors.Is(err, syscall.ENOEXEC):
		return vfs.Invalid
	}
	return vfs.CodeOf(err)
}

const initArg = "sandbox-init"

// IsInit reports whether args are those with which [Run] starts its own program again
// inside a sandbox. There it becomes the program to run. A program that calls Run must
// therefore begin with:
//
//	if sandbox.IsInit(os.Args) {
//		sandbox.Init(os.Args)
//	}
func IsInit(args []string) bool { return len(args) == 2 && args[0] == initPath && args[1] == initArg }

// Init confines this process and becomes the program that [Run] was given. It does not
// return.
func Init(args []string) {
	runtime.LockOSThread() // some settings are those of a thread, and exec keeps this one
	unix.CloseOnExec(statusFD)
	out := gob.NewEncoder(os.NewFile(statusFD, "status"))
	err := become(func() error { return out.Encode(status{Begins: true}) })
	_ = out.Encode(status{Failed: err.Error(), Code: codeOf(err)})
	os.Exit(notStarted)
}

// notStarted is the exit code that shells use when they cannot run a program.
const notStarted = 127

func become(begins func() error) error {
	var s spec
	if err := gob.NewDecoder(os.NewFile(specFD, "spec")).Decode(&s); err != nil {
		return err
	}
	// Close descriptors that the caller forgot to close on exec.
	if err := unix.CloseRange(statusFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	unix.CloseOnExec(infoFD)
	unix.CloseOnExec(specFD)
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0); err != nil {
		return err
	}
	if err := s.giveUp(); err != nil {
		return err
	}
	syscall.Umask(0o022)
	if err := os.Chdir(s.Dir); err != nil {
		return err
	}
	if err := os.Setenv("PATH", lookup(s.Env, "PATH")); err != nil {
		return err
	}
	program, err := exec.LookPath(s.Args[0])
	if err != nil {
		return err
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	if err := begins(); err != nil {
		return err
	}
	return &os.PathError{Op: "exec", Path: s.Args[0], Err: syscall.Exec(program, s.Args, s.Env)}
}

// giveUp gives up every privilege for good, and sets the limits.
func (s spec) giveUp() error {
	if s.Switch {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(s.GID, s.GID, s.GID), syscall.Setresuid(s.UID, s.UID, s.UID)); err != nil {
			return err
		}
	}
	// A user other than root has none of these, except inherited ones.
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &make([]unix.CapUserData, 2)[0]); err != nil {
		return err
	}
	for what, max := range map[int]uint64{
		unix.RLIMIT_NPROC:   uint64(s.Limits.Processes),
		unix.RLIMIT_FSIZE:   uint64(s.Limits.FileSize),
		unix.RLIMIT_NOFILE:  uint64(s.Limits.OpenFiles),
		unix.RLIMIT_CORE:    1, // byte: then the kernel does not start a core handler either; see core(5)
		unix.RLIMIT_MEMLOCK: 8 << 20,
	} {
		if err := limit(what, max); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := restrictFiles(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// limit lowers a limit of this process. It does not raise one.
func limit(what int, max uint64) error {
	var now syscall.Rlimit
	if err := syscall.Getrlimit(what, &now); err != nil {
		return err
	}
	max = min(max, now.Max)
	return syscall.Setrlimit(what, &syscall.Rlimit{Cur: max, Max: max})
}

// lookup returns the value of name in env.
func lookup(env []string, name string) string {
	for _, v := range env {
		if len(v) > len(name) && v[len(name)] == '=' && v[:len(name)] == name {
			return v[len(name)+1:]
		}
	}
	return ""
}

// readStatus reads what Init reports until the program begins or fails to.
func readStatus(r io.Reader) (status, error) {
	var sum status
	for dec := gob.NewDecoder(r); ; {
		var s status
		if err := dec.Decode(&s); err == io.EOF {
			return sum, nil
		} else if err != nil {
			return sum, err
		}
		sum.Begins = sum.Begins || s.Begins
		sum.Failed, sum.Code = s.Failed, s.Code
	}
}
