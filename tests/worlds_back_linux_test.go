package tests

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWorldsCases: whatever a program leaves in its directory, only files and
// directories inside it are synced back, all or nothing.
func TestWorldsCases(t *testing.T) {
	needSandbox(t)
	defer worldsSeen.report()
	held := map[int]bool{}
	for n := 50; n <= 58; n++ {
		held[n] = true
	}
	for _, c := range syncBacks {
		fine := t.Run(fmt.Sprintf("%d %s", c.n, c.name), c.test)
		held[c.n] = held[c.n] && fine
	}
	worldsSeen.count(&worldsSeen.cases, len(held))
	for _, fine := range held {
		if fine {
			worldsSeen.count(&worldsSeen.held, 1)
		}
	}
}

func (s syncBack) test(t *testing.T) {
	p := newPlaceInMemory(t)
	c := &backed{estate: &estate{t, p.base}, outside: p.outside}
	for path, what := range original {
		data, file := strings.CutPrefix(what, "file:")
		if program, exec := strings.CutPrefix(what, "exec:"); exec {
			c.write("served/"+path, program)
			ok(t, os.Chmod(c.path("served/"+path), 0o755))
		} else if file {
			c.write("served/"+path, data)
		}
	}
	served := picture{}
	for path, what := range s.served {
		served[path] = strings.ReplaceAll(what, "OUTSIDE", p.outside)
	}
	outside := take(t, p.outside)
	c.run(s)
	if c.code != s.code {
		t.Errorf("capd run ended with %d, want %d: %v", c.code, s.code, c.said)
	}
	heard := c.errs
	if strings.HasPrefix(s.says, "capd: ") { // it shows the changes first
		heard = heard[max(strings.LastIndex("\n"+heard, "\ncapd: "), 0):]
	}
	for words := range strings.SplitSeq(s.says, " | ") {
		if !strings.Contains(heard, words) {
			t.Errorf("capd run did not say %q: %q", words, heard)
		}
	}
	if s.served != nil {
		if d := served.differs(contents(t, p.served)); d != "" {
			t.Errorf("what is served: %s; %v", d, c.said)
		}
	}
	if s.after != nil {
		s.after(c)
	}
	if d := outside.differs(take(t, p.outside)); d != "" {
		t.Errorf("outside: %s", d)
	}
	if strings.Contains(c.out+c.errs, secret) {
		t.Errorf("capd run told what is outside: %v", c.said)
	}
	if left := c.leftBehind(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// run runs the case's program.
func (c *backed) run(s syncBack) {
	c.Helper()
	at, in := c.estate, "served"
	args := append([]string{"run"}, s.args...)
	if s.guest {
		c.write("capd.yaml", "mounts:\n  - path: project\n    url: physical:served\nguests:\n  - name: guest\n")
		host := c.serve()
		defer host.end()
		args = append(args, "--cap", host.locator, "--path", "project")
		at, in = &estate{c.TB, c.path("of-guest")}, ""
		ok(c, os.Mkdir(at.dir, 0o755))
	}
	script := strings.NewReplacer("OUTSIDE", c.outside, "TOKEN", c.token()).Replace(s.script)
	cmd := at.command(in, append(args, "--", "sh", "-c", script)...)
	var out, errs syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	stdin, err := cmd.StdinPipe()
	ok(c, err)
	ok(c, cmd.Start())
	if s.meanwhile != nil {
		if !waitFor(2*patience, func() bool { return strings.Contains(out.String(), "ready") }) {
			c.Errorf("the program did not begin: %s", errs.String())
		}
		trees, err := filepath.Glob(filepath.Join(at.state(), "materialized", "*", "tree"))
		ok(c, err)
		if len(trees) != 1 {
			c.Fatalf("there are %d trees", len(trees))
		}
		s.meanwhile(c, trees[0])
		_, _ = io.WriteString(stdin, "go\n")
	}
	stdin.Close()
	at.waits(cmd)
	c.said = said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
	if left := at.leftBehind(); len(left) > 0 {
		c.Errorf("capd run left behind: %q", left)
	}
}

// token returns a word that only this case's program has in its command line.
func (c *backed) token() string { return c.dir + "/token" }

// processes returns the processes that have word in their command line.
func processes(word string) (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(word)) {
			found = append(found, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return found
}
