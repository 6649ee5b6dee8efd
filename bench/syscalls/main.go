// Command syscalls counts the system calls that capd makes for one call of a guest. It serves a directory,
// attaches strace(1) to the server, makes each call many times, and prints a table in Markdown.
//
//	go run ./syscalls             builds capd and measures it
//	go run ./syscalls -capd FILE  measures this program
//
// It needs Linux, strace, and permission to trace its own child processes. The files lie in the directory for
// temporary files, $TMPDIR, and its file system decides what the server has to ask.
package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"capd/client"
	"capd/vfs"
)

func main() {
	program := flag.String("capd", "", "measure this `FILE` instead of building capd")
	depth := flag.Int("depth", 5, "names in the path")
	times := flag.Int("times", 200, "how often to make each call")
	flag.Parse()
	if err := run(*program, *depth, *times); err != nil {
		fmt.Fprintln(os.Stderr, "syscalls:", err)
		os.Exit(1)
	}
}

func run(program string, depth, times int) error {
	dir, err := os.MkdirTemp("", "capd-syscalls")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if program == "" {
		program = filepath.Join(dir, "capd")
		build := exec.Command("go", "build", "-o", program, "./cmd/capd")
		build.Dir = ".." // the module of capd
		if text, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build: %w\n%s", err, text)
		}
	}
	path := strings.TrimPrefix(strings.Repeat("/d", depth-1)+"/f", "/")
	file := filepath.Join(dir, "tree", path)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), 4096), 0o644); err != nil {
		return err
	}
	server, locator, err := serve(program, filepath.Join(dir, "tree"), filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	defer func() {
		_ = server.Process.Signal(os.Interrupt)
		_ = server.Wait()
	}()
	ctx := context.Background()
	conn, err := client.Dial(ctx, locator)
	if err != nil {
		return err
	}
	defer conn.Close()
	d := conn.Dir(ctx).SubDir("project")
	var t table
	for _, c := range calls(d, path) {
		counts, err := measure(server.Process.Pid, filepath.Join(dir, "counts"), times, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		t.add(c.name, times, counts)
	}
	t.print(os.Stdout, depth)
	return nil
}

// serve starts capd and returns the locator of its first grant.
func serve(program, tree, state string) (*exec.Cmd, string, error) {
	cmd := exec.Command(program, "serve", tree, "--state", state)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "capnp://") {
			return cmd, lines.Text(), nil
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil, "", fmt.Errorf("%s serve printed no locator", program)
}

// call is one call of a guest.
type call struct {
	name string
	do   func() error
}

func calls(d *client.Dir, path string) []call {
	ctx := context.Background()
	block := make([]byte, 4096)
	n := 0
	return []call{
		{"stat", func() error {
			_, err := vfs.StatAt(ctx, d, path, true)
			return err
		}},
		{"read 4 KiB", func() error {
			f := d.OpenFile(path)
			defer f.Close()
			got, err := f.ReadAt(ctx, block, 0)
			if err == nil && got != len(block) {
				err = fmt.Errorf("read %d bytes", got)
			}
			return err
		}},
		{"put 4 KiB", func() error {
			n++
			_, err := d.Put(ctx, path, bytes.NewReader(bytes.Repeat([]byte{byte(n)}, 4096)), vfs.If{})
			return err
		}},
	}
}
