package git_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// sources makes a bare repository of n files that look like programs, packed as git does
// it. It returns the repository and the number of bytes in all files.
func sources(t testing.TB, n int) (dir string, size int64) {
	t.Helper()
	needGit(t)
	dir = t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "--bare", "-b", "main")
	cmd := gitCommand(dir, "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	fmt.Fprintf(in, "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 2\nm\n")
	for i := range n {
		b.Reset()
		for b.Len() < 500+random.IntN(8000) {
			fmt.Fprintf(&b, "\tif word%d := call%d(value, %d); word%d != nil {\n", random.IntN(500), random.IntN(2000), random.IntN(1e6), i%100)
		}
		size += int64(b.Len())
		fmt.Fprintf(in, "M 100644 inline dir%d/part%d/file%d.go\ndata %d\n%s\n", i%50, i/50%40, i, b.Len(), b.Bytes())
	}
	check.OK(t, in.Close())
	check.OK(t, cmd.Wait())
	gitCLI(t, dir, "", "repack", "-adfq")
	return dir, size
}

// readAll lists d and the directories below it, reads every file, and returns the number
// of bytes.
func readAll(ctx context.Context, d vfs.Dir, buf []byte) (total int64, err error) {
	for e, err := range d.List(ctx) {
		if err != nil {
			return total, err
		}
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			return total, err
		}
		size := int64(0)
		switch n := n.(type) {
		case vfs.Dir:
			size, err = readAll(ctx, n, buf)
		case vfs.File:
			size, err = readFile(ctx, n, buf)
		}
		n.Close()
		if err != nil {
			return total, err
		}
		total += size
	}
	return total, nil
}

func readFile(ctx context.Context, f vfs.File, buf []byte) (total int64, err error) {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	for {
		n, err := c.ReadAt(buf, total)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		} else if err != nil {
			return total, err
		}
	}
}

// catFile reads everything with git's own commands, and returns the number of bytes.
func catFile(dir string) (total int64, err error) {
	list := gitCommand(dir, "ls-tree", "-r", "--format=%(objectname)", "main")
	cat := gitCommand(dir, "cat-file", "--batch")
	if cat.Stdin, err = list.StdoutPipe(); err != nil {
		return 0, err
	}
	out, err := cat.StdoutPipe()
	if err != nil {
		return 0, err
	}
	for _, c := range []*exec.Cmd{cat, list} {
		if err := c.Start(); err != nil {
			return 0, err
		}
	}
	total, err = io.Copy(io.Discard, out)
	for _, c := range []*exec.Cmd{list, cat} {
		if waited := c.Wait(); err == nil {
			err = waited
		}
	}
	return total, err
}

// BenchmarkReadAll reads a repository of 50,000 files, each round by git and by vfs, and
// reports how many times as long vfs takes.
func BenchmarkReadAll(b *testing.B) {
	dir, size := sources(b, 50_000)
	b.Logf("%s bytes", strconv.FormatInt(size, 10))
	buf := make([]byte, 64<<10)
	var byGit, byVFS time.Duration
	for b.Loop() {
		start := time.Now()
		got, err := catFile(dir)
		check.OK(b, err)
		if got <= size {
			b.Fatalf("git wrote %d bytes, want more than %d", got, size)
		}
		byGit += time.Since(start)

		start = time.Now()
		s, err := git.OpenAmbient(dir, git.Options{})
		check.OK(b, err)
		got, err = readAll(b.Context(), s.Root(), buf)
		check.OK(b, err)
		if got != size {
			b.Fatalf("read %d bytes, want %d", got, size)
		}
		check.OK(b, s.Close())
		byVFS += time.Since(start)
	}
	n := float64(b.N)
	b.ReportMetric(byGit.Seconds()/n, "git-s/op")
	b.ReportMetric(byVFS.Seconds()/n, "vfs-s/op")
	b.ReportMetric(byVFS.Seconds()/byGit.Seconds(), "vfs/git")
}
