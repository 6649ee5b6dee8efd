package worlds

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// A tool is a program that may be installed here.
type tool struct {
	path    string
	missing string // why it cannot be used
}

// find looks for a program under any of names. from is the Debian package that contains
// it.
func find(from string, names ...string) tool {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return tool{path: path}
		}
	}
	return tool{missing: fmt.Sprintf("%s is not installed (Debian: %s)", names[0], from)}
}

func findFd() tool  { return find("fd-find", "fd", "fdfind") }
func findRg() tool  { return find("ripgrep", "rg") }
func findGit() tool { return find("git", "git") }
func findSum() tool { return find("coreutils", "sha256sum") }
func findCp() tool  { return find("coreutils", "cp") }
func findTar() tool { return find("tar", "tar") }

func findSync() tool { return find("coreutils", "sync") }

// run runs the program in dir and returns what it prints.
func (t tool) run(ctx context.Context, dir string, args ...string) ([]byte, error) {
	if t.missing != "" {
		return nil, fmt.Errorf("%s", t.missing)
	}
	cmd := exec.CommandContext(ctx, t.path, args...)
	cmd.Dir = dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", t.path, err, strings.TrimSpace(said.String()))
	}
	return out.Bytes(), nil
}

// version returns the first line of the program's --version.
func (t tool) version() string {
	out, err := t.run(context.Background(), "", "--version")
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// notes says how the measurement was made, and with what programs.
func notes() []string {
	return []string{
		"trees are made for the run, below TMPDIR, but for \"this repository\"; what is read is in the page cache for everybody, and before each turn what waits to be written is written to disk, and garbage collected; neither is timed",
		"a program's start is in its time, and so is opening capd's store in capd's; over the wire, the host has been there since the first turn, and connecting is in the time",
		"what everybody finds, reads, stores and copies is compared with what it ought to be: paths, CRC-32C, SHA-256, root digests",
		"grep in Go is about the time of all CPUs, since rg searches with all of them and grep with one; over the wire it is the time that passes",
		"cas.Put is durable when it answers; sha256sum stores nothing, cp -a and tar -x sync nothing, and neither does a materialized tree; a copy and what is extracted by capd is on disk when it answers",
		fmt.Sprintf("a round more than is counted comes first; %d rounds are enough for turns that take seconds, with none before them", longRounds),
		fmt.Sprintf("floors: %s; %s; %s; %s; %s; %s", findFd().version(), findRg().version(), findGit().version(), findSum().version(), findCp().version(), findTar().version()),
	}
}

// complain prints an error while the rest goes on.
func complain(what string, err error) { fmt.Fprintf(os.Stderr, "bench: %s: %v\n", what, err) }
