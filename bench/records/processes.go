package records

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"capd/client/console"
	"capd/server"
	"capd/state"
)

const (
	// manyGrants is with how many grants a host starts.
	manyGrants = 100_000
	// revokes is how many revokes are traced in a turn.
	revokes = 20
)

// processes measures capd as a process of its own.
func processes(o *Options, dir string) *world {
	p := &process{dir: dir}
	n := max(1, int(manyGrants*o.Scale))
	started := func(what func(took time.Duration, memory float64) float64) figure {
		return func(ctx context.Context) (float64, error) {
			took, memory, err := p.restart(ctx)
			return what(took, memory), err
		}
	}
	return &world{
		rows: []*contest{
			{Row{Name: "revoke: syncs", Target: 3}, nil, p.syncs},
			{Row{Name: fmt.Sprintf("start with %d grants", n), Unit: "ms", Target: 1000}, nil,
				started(func(took time.Duration, _ float64) float64 { return float64(took.Microseconds()) / 1e3 })},
			{Row{Name: fmt.Sprintf("start with %d grants: memory", n), Unit: "MB", Target: 100}, nil,
				started(func(_ time.Duration, memory float64) float64 { return memory })},
		},
		setup: func(ctx context.Context) (err error) {
			if p.capd, err = o.Capd(); err != nil {
				return err
			}
			return p.grantMany(ctx, n)
		},
		close: func() error { return nil },
	}
}

// process is a state with many grants, for a host that serves an empty directory.
type process struct{ dir, capd string }

func (p *process) tree() string  { return filepath.Join(p.dir, "tree") }
func (p *process) state() string { return filepath.Join(p.dir, "state") }

// grantMany makes n grants.
func (p *process) grantMany(ctx context.Context, n int) error {
	if err := os.Mkdir(p.tree(), 0o700); err != nil {
		return err
	}
	s := &server.Server{State: p.state(), Mounts: []server.Mount{{Path: "project", URL: server.PhysicalURL(p.tree())}}}
	if err := s.Start(ctx); err != nil {
		return err
	}
	const workers = 64
	done := make(chan error)
	for worker := range workers {
		go func() {
			var err error
			for i := worker; i < n && err == nil; i += workers {
				_, err = s.Grant(ctx, server.Guest{Name: fmt.Sprint("guest", i), Path: "project"})
			}
			done <- err
		}()
	}
	var err error
	for range workers {
		err = errors.Join(err, <-done)
	}
	return errors.Join(err, s.Close())
}

// serve starts a host. stop ends it.
func (p *process) serve(ctx context.Context) (pid int, took time.Duration, stop func(), err error) {
	cmd := exec.CommandContext(ctx, p.capd, "serve", p.tree(), "--state", p.state(), "--json")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, nil, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		stop()
		return 0, 0, nil, fmt.Errorf("%s serve said nothing: %w", p.capd, err)
	}
	return cmd.Process.Pid, time.Since(begun), stop, nil
}

// restart returns how long a start takes, and the resident memory afterwards in MB.
func (p *process) restart(ctx context.Context) (took time.Duration, memory float64, err error) {
	pid, took, stop, err := p.serve(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer stop()
	memory, err = resident(pid, "VmHWM")
	return took, memory, err
}

// resident returns how many MB of memory a process has, or had at most, as the kernel calls that.
func resident(pid int, what string) (mb float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, what+": %f kB", &kib); n == 1 {
			return kib * 1024 / 1e6, nil
		}
	}
	return 0, errors.New("the kernel does not say how much memory a process has")
}

// syncs returns how many fsync and fdatasync a revoke costs. strace counts them.
func (p *process) syncs(ctx context.Context) (each float64, err error) {
	if _, err := exec.LookPath("strace"); err != nil {
		return 0, err
	}
	pid, _, stop, err := p.serve(ctx)
	if err != nil {
		return 0, err
	}
	defer stop()
	con, err := console.Dial(ctx, state.Dir(p.state()).Control())
	if err != nil {
		return 0, err
	}
	defer con.Close()
	var ids []string
	for i := range revokes {
		g, _, control, err := con.Grant(ctx, fmt.Sprint("revoked", i), "project", false)
		if err != nil {
			return 0, err
		}
		defer control.Close()
		ids = append(ids, g.ID)
	}
	time.Sleep(time.Second) // what is written later is written
	calls, err := traced(ctx, pid, func() error {
		for _, id := range ids {
			if _, err := con.Revoke(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return float64(calls) / revokes, err
}

// traced returns how many syncs the process pid makes while do runs.
func traced(ctx context.Context, pid int, do func() error) (calls int, err error) {
	trace := exec.CommandContext(ctx, "strace", "-f", "-e", "trace=fsync,fdatasync", "-p", fmt.Sprint(pid))
	said, err := trace.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := trace.Start(); err != nil {
		return 0, err
	}
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, "attached") {
		_ = trace.Process.Kill()
		_ = trace.Wait()
		return 0, fmt.Errorf("strace did not attach: %s", strings.TrimSpace(line))
	}
	read := make(chan error)
	var text []byte
	go func() {
		var err error
		text, err = io.ReadAll(lines)
		read <- err
	}()
	err = do()
	_ = trace.Process.Signal(os.Interrupt)
	readErr := <-read
	_ = trace.Wait() // it ends by the signal
	return bytes.Count(text, []byte("sync(")), errors.Join(err, readErr)
}
