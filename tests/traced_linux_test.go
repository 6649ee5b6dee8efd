package tests

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// traced is a host that a [tracer] runs.
type traced struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	log   syncBuffer // what the host prints
	over  string     // the tracer's last line; "" before it
}

// startTraced starts the real program under a tracer that kills it after its nth step, or not at all if n is 0.
func startTraced(n int, capd string, args ...string) (*traced, error) {
	h := &traced{cmd: program("tracer", append([]string{strconv.Itoa(n), capd}, args...)...), lines: make(chan string, 1)}
	h.cmd.Stderr = &h.log
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(h.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	return h, nil
}

// serving waits until the host serves, and reports whether it does: it may have been killed before.
func (h *traced) serving() bool {
	waitFor(40*time.Second, func() bool { return len(h.lines) > 0 || strings.Contains(h.log.String(), "Ctrl-C") })
	return len(h.lines) == 0
}

// arm has the host killed after n more steps.
func (h *traced) arm(n int) error {
	if _, err := fmt.Fprintln(h.in, "arm", n); err != nil {
		return err
	}
	if said := <-h.lines; said != "armed" {
		return fmt.Errorf("the tracer said %q: %s", said, h.log.String())
	}
	return nil
}

// hangup sends the host SIGHUP.
func (h *traced) hangup() error {
	_, err := fmt.Fprintln(h.in, "hangup")
	return err
}

// killed reports whether the host was killed after a step.
func (h *traced) killed() bool { return len(h.lines) > 0 }

// end kills the host unless it was killed, and returns the step after which that was, or "".
func (h *traced) end() string {
	if h.over == "" {
		h.in.Close()
		h.over = <-h.lines
		_ = h.cmd.Wait()
	}
	step, _ := strings.CutPrefix(h.over, "killed after ")
	if step == h.over {
		return ""
	}
	return step
}
