package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"capd/bench/load"
	"capd/bench/peers"
)

// A contender's processes are this program again, with the peers or without. The environment tells such a
// process that it is one. It reads a role from its standard input and then commands, one a line. It answers
// each with a line of JSON:
//
//	run OP SIZE OUTSTANDING MILLISECONDS   a client: load.Result
//	idle N                                 a client: opens N connections that stay idle
//	stats                                  load.Result with Mallocs
//	profile FILE                           begins a CPU profile
//	profile                                ends it
//
// It ends when its standard input ends.
const childEnv = "CAPD_BENCH_CHILD"

type role struct {
	Contender string
	Server    bool
	Place     peers.Place
}

// childMain is the main function of a process with childEnv.
func childMain() {
	if err := child(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func child(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return err
	}
	var what role
	if err := json.Unmarshal(line, &what); err != nil {
		return err
	}
	c, err := peers.Find(what.Contender)
	if err != nil {
		return err
	}
	var client load.Client
	if what.Server {
		l, err := what.Place.Listen(c.Beneath)
		if err != nil {
			return err
		}
		go func() {
			fmt.Fprintln(os.Stderr, "bench:", c.Serve(what.Place, l))
			os.Exit(1)
		}()
		fmt.Fprintln(out, l.Addr())
	} else {
		if client, err = c.Client(what.Place); err != nil {
			return err
		}
		fmt.Fprintln(out, "ready")
	}
	var loop load.Loop
	answers := json.NewEncoder(out)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := answers.Encode(obey(c, what.Place, client, &loop, strings.TrimSpace(line))); err != nil {
			return err
		}
	}
}

func obey(c *peers.Contender, p peers.Place, client load.Client, loop *load.Loop, line string) (r load.Result) {
	var err error
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "run":
		var op string
		var size, outstanding, ms int
		if _, err = fmt.Sscan(rest, &op, &size, &outstanding, &ms); err != nil {
			break
		}
		var f func(int) func() error
		if f, err = client.Op(op, size); err == nil {
			return loop.Run(f, outstanding, time.Duration(ms)*time.Millisecond)
		}
	case "idle":
		var n int
		if _, err = fmt.Sscan(rest, &n); err != nil {
			break
		}
		for range n {
			if err = c.Idle(p); err != nil {
				break
			}
		}
	case "stats":
		r.Mallocs = load.Mallocs()
	case "profile":
		err = profile(rest)
	default:
		err = fmt.Errorf("unknown command %q", line)
	}
	if err != nil {
		r.Err = err.Error()
	}
	return r
}

var profileFile *os.File

func profile(name string) (err error) {
	if name == "" {
		pprof.StopCPUProfile()
		return profileFile.Close()
	}
	if profileFile, err = os.Create(name); err != nil {
		return err
	}
	return pprof.StartCPUProfile(profileFile)
}

// A process is one process of a contender.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	foreign bool // it is not this program
}

// start starts cmd: another program or, with a role, this one. It returns the first line that the process
// prints. The process is killed when ctx ends.
func start(ctx context.Context, cmd *exec.Cmd, r *role) (p *process, hello string, err error) {
	if r != nil {
		program := r.Place.Program
		if c, err := peers.Find(r.Contender); err != nil || !slices.Contains(peers.Own, c) || program == "" {
			if program, err = os.Executable(); err != nil {
				return nil, "", err
			}
		}
		cmd = exec.Command(program)
		cmd.Env = append(os.Environ(), childEnv+"=1")
	}
	cmd.Stderr = os.Stderr
	p = &process{cmd: cmd, foreign: r == nil}
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p.out = bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	if r != nil {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, "", err
		}
		if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
			p.stop()
			return nil, "", err
		}
	}
	if hello, err = p.line(); err != nil {
		p.stop()
		return nil, "", err
	}
	return p, hello, nil
}

// line returns the next line that the process prints.
func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s said nothing: %w", p.cmd.Path, err)
	}
	return strings.TrimSpace(line), nil
}

// patience is how long a process may take for a command.
const patience = 30 * time.Second

// ask sends a command and returns its answer.
func (p *process) ask(format string, args ...any) (r load.Result, err error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return r, err
	}
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	line, err := p.line()
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, fmt.Errorf("%q: %w", line, err)
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// stop ends the process.
func (p *process) stop() {
	p.in.Close()
	if p.foreign {
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	timer := time.AfterFunc(5*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	_ = p.cmd.Wait()
}

// memory returns a figure of the process's memory, in bytes: VmHWM or VmRSS (proc_pid_status(5)).
func (p *process) memory(name string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			var kib int64
			_, err := fmt.Sscan(rest, &kib)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s", name)
}
