package sandbox

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// run is one run of a command.
type run struct {
	Command
	user user
	disk *disk
	spec spec
}

// run runs bubblewrap.
func (r *run) run(ctx context.Context, bwrap string, args mounts) (int, error) {
	// bubblewrap ends with the thread that started it: see --die-with-parent. It asks
	// the kernel for that just before it lets its child continue. If it is killed
	// before, its child waits for ever. No program can begin in what remains without a
	// Run, since Init gets no spec.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	pipes, err := newPipes()
	if err != nil {
		return -1, err
	}
	defer pipes.close()
	defer pipes.closeTheirs()
	file, err := args.file()
	if err != nil {
		return -1, err
	}
	defer file.Close()
	cmd := exec.Command(bwrap, "--args", strconv.Itoa(argsFD), "--", initPath, initArg)
	cmd.Args[0] = "bwrap" // wherever it is on the host
	cmd.Dir, cmd.Env = "/", []string{}
	// It has both ends of infoFD, so bubblewrap can write to it even without a Run.
	cmd.ExtraFiles = append(pipes.theirs[:], file, pipes.at(infoFD))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	streams, err := connect(cmd, r.Command, r.user)
	if err != nil {
		return -1, err
	}
	if err := cmd.Start(); err != nil {
		streams.close()
		return -1, err
	}
	streams.started()
	pipes.closeTheirs()
	// The process group is bubblewrap, and its child while that waits.
	unkill := context.AfterFunc(ctx, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	said, err := r.supervise(ctx, stop, pipes)
	unkill() // before another group may get its number
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	pipes.close()  // whoever still waits for the spec stops
	_ = cmd.Wait() // ProcessState has the result
	err = errors.Join(err, streams.wait())
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	if err == nil {
		err = r.disk.check() // what it stored since the watcher last looked
	}
	if err != nil {
		return -1, err
	}
	return said.result(cmd.ProcessState)
}

// supervise waits for the sandbox, lets the program begin, watches it, and returns when
// all of its processes have ended.
func (r *run) supervise(ctx context.Context, stop context.CancelCauseFunc, p *pipes) (said status, err error) {
	var info struct {
		PID int `json:"child-pid"`
	}
	if json.NewDecoder(p.at(infoFD)).Decode(&info) != nil {
		return status{}, nil // bubblewrap has failed, and says why
	}
	first, err := unix.PidfdOpen(info.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return status{}, nil
	}
	if err != nil {
		return status{}, err
	}
	defer unix.Close(first)
	var watching sync.WaitGroup
	ctx, done := context.WithCancelCause(ctx)
	watching.Go(func() { watch(ctx, stop, info.PID, r.disk, r.Limits) })
	defer watching.Wait()
	defer done(nil)
	if gob.NewEncoder(p.at(specFD)).Encode(r.spec) == nil {
		p.at(specFD).Close()
		said, err = readStatus(p.at(statusFD))
	}
	return said, errors.Join(err, ended(ctx, first))
}

// ended waits for the process of pidfd, the first of its namespace. When that ends, the
// kernel has ended all others. When ctx is done, ended kills it.
func ended(ctx context.Context, pidfd int) error {
	unkill := context.AfterFunc(ctx, func() { _ = unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0) })
	defer unkill()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// result is the result of Run for a run that ended by itself.
func (s status) result(state *os.ProcessState) (int, error) {
	switch signal := state.Sys().(syscall.WaitStatus); {
	case s.Failed != "":
		return notStarted, vfs.Errorf(s.Code, "the program could not be started in the sandbox: %s", vfs.Printable(s.Failed))
	case !s.Begins:
		return -1, vfs.Errorf(vfs.Unsupported, "bubblewrap could not make the sandbox; what it says is on standard error")
	case signal.Signaled():
		return -1, vfs.Errorf(vfs.Internal, "bubblewrap was ended by signal %d, and the program with it", signal.Signal())
	}
	return state.ExitCode(), nil
}

// pipes are the pipes between Run, bubblewrap and Init: infoFD, specFD, statusFD.
type pipes struct {
	ours   [3]*os.File
	theirs [3]*os.File
}

func newPipes() (*pipes, error) {
	p := new(pipes)
	for i := range p.ours {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			p.closeTheirs()
			return nil, err
		}
		p.ours[i], p.theirs[i] = r, w
		if i+infoFD == specFD {
			p.ours[i], p.theirs[i] = w, r
		}
	}
	return p, nil
}

// at returns our end of the pipe whose other end is fd.
func (p *pipes) at(fd int) *os.File { return p.ours[fd-infoFD] }

func (p *pipes) close() {
	for _, f := range p.ours {
		f.Close() // nil is fine
	}
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close()
	}
}
