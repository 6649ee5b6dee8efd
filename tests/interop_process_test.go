package tests

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// cxxProcess is a running C++ server.
type cxxProcess struct {
	testing.TB
	cmd    *exec.Cmd
	socket string

	mu    sync.Mutex
	lines []string
}

// startCxx starts a program that listens on a socket of its own. It is killed
// at the end of the test. In args "" stands for the socket's path.
func startCxx(t testing.TB, name string, args ...string) *cxxProcess {
	t.Helper()
	p := &cxxProcess{TB: t, socket: filepath.Join(newPlace(t).base, "s")}
	for i := range args {
		if args[i] == "" {
			args[i] = p.socket
		}
	}
	p.cmd = exec.Command(cxx(t, name), args...)
	var stderr syncBuffer
	p.cmd.Stderr = &stderr
	out, err := p.cmd.StdoutPipe()
	ok(t, err)
	ok(t, p.cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		reading.Wait()
		p.cmd.Wait()
		if stderr.String() != "" {
			t.Errorf("%s printed: %s", name, &stderr)
		}
	})
	p.waitSaid("listening")
	return p
}

// said returns how many lines of the program began with a word, and the rest
// of the last one.
func (p *cxxProcess) said(word string) (n int, rest string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if w, r, _ := strings.Cut(line, " "); w == word {
			n++
			rest = r
		}
	}
	return n, rest
}

func (p *cxxProcess) waitSaid(word string) {
	p.Helper()
	if !waitFor(patience, func() bool { n, _ := p.said(word); return n > 0 }) {
		p.Fatalf("the program does not say %q", word)
	}
}
