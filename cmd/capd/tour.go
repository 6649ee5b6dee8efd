package main

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

	"capd/operator"
	"capd/vfs"
)

type tourCommand struct{}

func (tourCommand) Help() string {
	return `It starts a host on a directory of its own, runs the commands that it shows as separate processes,
checks each result, and cleans up. It ends with an error if a result is not the expected one.

Examples:
  capd tour`
}

// tourStep is one command of the tour, as a person would type it.
type tourStep struct {
	say   string // what happens and why, for the reader; "" if the step belongs to the one before
	as    string // whose locator it uses: a key of tour.locators; "" for the host
	args  []string
	stdin string
	want  vfs.Code // the expected refusal; "" for success
	shows string   // what the output must contain
	keep  string   // the name under which to keep the output, a locator
	ready func() error
}

// tour is a running tour.
type tour struct {
	e        *env
	p        painter
	exe      string
	dir      string
	locators map[string]string
	went     int
}

func (tourCommand) Run(e *env) (err error) {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "capd-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &tour{e: e, p: newPainter(e.stdout), exe: exe, dir: dir, locators: map[string]string{}}
	if err := t.scene(); err != nil {
		return err
	}
	begun := time.Now()
	stop, err := t.serve()
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	for _, s := range t.steps() {
		if err := t.step(s); err != nil {
			return err
		}
	}
	t.say("The host ends, and with it every grant. Nothing is left behind.")
	if err := stop(); err != nil {
		return t.otherwise("the host ended with: %v", err)
	}
	for _, left := range []string{"state/guest.sock", "state/control.sock"} {
		if _, err := os.Lstat(filepath.Join(dir, left)); err == nil {
			return t.otherwise("%s is left", left)
		}
	}
	fmt.Fprintf(e.stdout, "\n%s %d commands, all with the expected result, in %.1f s.\n", t.p.good("Done:"), t.went, time.Since(begun).Seconds())
	return nil
}

// scene makes the directory to serve: a small project with a secret, and with traps.
func (t *tour) scene() error {
	for path, text := range map[string]string{
		"site/README.md":         "# A small site\n",
		"site/docs/guide.md":     "Write here.\n",
		"site/main.go":           "package main\n\nfunc main() {}\n",
		"site/.env":              "TOKEN=do-not-tell\n",
		"site/.git/hooks/sample": "#!/bin/sh\n",
		"outside/private.txt":    "not yours\n",
	} {
		path = filepath.Join(t.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// serve starts the host, and waits for the first guest's locator.
func (t *tour) serve() (stop func() error, err error) {
	t.say("A host serves a directory. Nothing is configured.")
	t.show("", "", "serve", "site")
	ctx, cancel := context.WithCancel(t.e)
	cmd := exec.CommandContext(ctx, t.exe, "serve", filepath.Join(t.dir, "site"), "--state", filepath.Join(t.dir, "state"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	var ended bool
	stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w: %s", err, complaints.String())
		}
		return nil
	}
	found := make(chan string, 1)
	go func() {
		found <- firstLocator(out)
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case t.locators["GUEST"] = <-found:
	case <-time.After(5 * time.Second):
	}
	if t.locators["GUEST"] == "" {
		_ = stop()
		if t.e.Err() != nil {
			return nil, t.e.Err()
		}
		return nil, t.otherwise("the host did not start: %s", complaints.String())
	}
	t.went++
	fmt.Fprintf(t.e.stdout, "    %s\n", t.p.faint("a locator for the first guest: capnp://…, kept here as $GUEST"))
	return stop, nil
}

// firstLocator reads r up to its first locator.
func firstLocator(r io.Reader) string {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "capnp://") {
			return lines.Text()
		}
	}
	return ""
}

func (t *tour) say(text string) { fmt.Fprintf(t.e.stdout, "\n%s\n", text) }

func (t *tour) show(as, stdin string, args ...string) {
	line := "capd"
	for _, a := range args {
		if strings.Contains(a, t.dir) {
			continue
		}
		line += " " + operator.Quote(a)
	}
	if as != "" {
		line = "CAPD_CAP=$" + as + " " + line
	}
	if stdin != "" {
		line = "printf " + operator.Quote(strings.ReplaceAll(stdin, "\n", `\n`)) + " | " + line
	}
	fmt.Fprintf(t.e.stdout, "  %s\n", t.p.secret("$ "+line))
}

// step runs one command and checks its output.
func (t *tour) step(s tourStep) error {
	if s.say != "" {
		t.say(s.say)
	}
	if s.ready != nil {
		if err := s.ready(); err != nil {
			return err
		}
	}
	t.show(s.as, s.stdin, s.args...)
	if err := t.e.stdout.Flush(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.e, 10*time.Second)
	defer cancel()
	args := s.args
	if s.as == "" {
		args = append(args[:len(args):len(args)], "--state", filepath.Join(t.dir, "state"))
	}
	cmd := exec.CommandContext(ctx, t.exe, args...)
	cmd.Env = append(os.Environ(), "CAPD_CAP="+t.locators[s.as])
	cmd.Stdin = strings.NewReader(s.stdin)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	code := cmd.ProcessState.ExitCode()
	t.print(out.String(), s.keep)
	t.print(complaint.String(), "")
	if t.e.Err() != nil {
		return t.e.Err()
	}
	refusal := "capd: " + string(s.want) + ":"
	switch {
	case s.want == "" && err != nil:
		return t.otherwise("it should have worked (exit %d)", code)
	case s.want != "" && (code != exitRefused || !strings.HasPrefix(complaint.String(), refusal)):
		return t.otherwise("it should have been refused with %s and exit 1 (exit %d)", s.want, code)
	case !strings.Contains(out.String(), s.shows):
		return t.otherwise("it should have shown %q", s.shows)
	case strings.Contains(out.String()+complaint.String(), "do-not-tell"):
		return t.otherwise("it told the secret")
	case s.as != "" && s.keep == "" && strings.Contains(out.String()+complaint.String(), t.dir):
		return t.otherwise("it told a path of the host")
	}
	if s.keep != "" {
		t.locators[s.keep] = strings.TrimSpace(out.String())
	}
	t.went++
	return nil
}

// print prints at most a few lines.
func (t *tour) print(text, keep string) {
	if keep != "" {
		text = "capnp://…, kept here as $" + keep
	}
	const most = 9
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > most {
			fmt.Fprintf(t.e.stdout, "    %s\n", t.p.faint("…"))
			break
		}
		fmt.Fprintf(t.e.stdout, "    %s\n", t.p.faint(strings.TrimSuffix(line, "\n")))
	}
}

func (t *tour) otherwise(format string, args ...any) error {
	fmt.Fprintf(t.e.stdout, "  %s\n", t.p.bad("This went otherwise: "+fmt.Sprintf(format, args...)))
	return vfs.Errorf(vfs.Internal, "the tour did not go as expected: "+format, args...)
}
