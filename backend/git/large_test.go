package git_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// noise returns size random bytes, which do not compress.
func noise(seed uint64, size int) []byte {
	b := make([]byte, size)
	random := rand.New(rand.NewPCG(seed, 1))
	for i := 0; i+8 <= size; i += 8 {
		v := random.Uint64()
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b
}

// packOf makes a bare repository with one pack of n files.
func packOf(t testing.TB, n int, file func(i int) []byte) (dir string) {
	t.Helper()
	needGit(t)
	dir = t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "--bare", "-b", "main")
	cmd := gitCommand(dir, "-c", "core.compression=0", "-c", "pack.compression=0", "-c", "core.bigFileThreshold=512k", "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	check.OK(t, err)
	check.OK(t, cmd.Start())
	fmt.Fprintf(in, "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 2\nm\n")
	for i := range n {
		data := file(i)
		fmt.Fprintf(in, "M 100644 inline f%d\ndata %d\n", i, len(data))
		_, err := in.Write(data)
		check.OK(t, err)
		fmt.Fprintln(in)
	}
	check.OK(t, in.Close())
	check.OK(t, cmd.Wait())
	return dir
}

// The heap stays far below the size of a pack, for many small files and for a few large
// ones.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packs of 100 MB")
	}
	const total = 96 << 20
	for name, size := range map[string]int{"Small": 1 << 20, "Large": 32 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := packOf(t, total/size, func(i int) []byte { return noise(uint64(i), size) })
			s, err := git.OpenAmbient(dir, git.Options{CacheBytes: 8 << 20})
			check.OK(t, err)
			defer s.Close()
			var peak atomic.Uint64
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				var m runtime.MemStats
				for {
					select {
					case <-stop:
						return
					case <-time.After(5 * time.Millisecond):
						runtime.ReadMemStats(&m)
						peak.Store(max(peak.Load(), m.HeapInuse))
					}
				}
			})
			read, err := readAll(t.Context(), s.Root(), make([]byte, 64<<10))
			check.OK(t, err)
			if read != total {
				t.Errorf("read %d bytes, want %d", read, total)
			}
			close(stop)
			wg.Wait()
			grown := int64(peak.Load()) - int64(before.HeapInuse)
			if grown >= int64(total/3) {
				t.Errorf("the heap grew by %d bytes, want less than %d", grown, int64(total/3))
			}
			t.Logf("the heap grew by %d MiB", grown>>20)
		})
	}
}

// Large files can be read and changed at any offset, and committed.
func TestLargeFiles(t *testing.T) {
	const size = 9 << 20
	data := noise(7, size)
	dir := packOf(t, 1, func(int) []byte { return data })
	s, err := openWork(dir, git.Options{})
	check.OK(t, err)
	defer s.Close()
	ctx := t.Context()
	f, err := vfs.WalkFile(ctx, s.Root(), "f0")
	check.OK(t, err)
	v, err := vfs.VersionOf(ctx, f)
	check.OK(t, err)
	if want := vfs.Version(sha256.Sum256(data)); v != want {
		t.Errorf("the version is %v, want %v", v, want)
	}
	buf := make([]byte, 1000)
	for _, off := range []int64{size - 10, 0, size / 2, 5 << 20} {
		n, err := f.ReadAt(ctx, buf, off)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("f.ReadAt at %d: %v, want %v", off, err, io.EOF)
		}
		if got, want := buf[:n], data[off:off+int64(n)]; !bytes.Equal(got, want) {
			t.Errorf("%d bytes at %d = %x, want %x", n, off, got, want)
		}
	}
	n, err := f.WriteAt(ctx, []byte("written"), size/2, vfs.If{Is: v})
	check.OK(t, err)
	if n != 7 {
		t.Errorf("wrote %d bytes, want 7", n)
	}
	copy(data[size/2:], "written")
	c, err := vfs.Open(ctx, f)
	check.OK(t, err)
	defer c.Close()
	_, err = s.Commit(ctx, onto(""))
	check.OK(t, err)
	if got := gitCLI(t, dir, "", "show", "main:f0"); got != string(data) {
		t.Errorf("git shows %d other bytes than the %d that were written", len(got), len(data))
	}
	all, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	check.OK(t, err)
	if !bytes.Equal(data, all) {
		t.Errorf("what was open before the commit reads as %d other bytes than the %d that were written", len(all), len(data))
	}
	sound(t, dir)
	check.Is(t, "f.Truncate(1<<40)", f.Truncate(ctx, 1<<40, vfs.If{}), vfs.Limit)
}

// The first read of a large file takes long. Meanwhile other files can be read. A second
// reader of the same file waits until its context ends.
func TestLargeFilesOneBesideAnother(t *testing.T) {
	dir := packOf(t, 2, func(i int) []byte { return noise(uint64(i), 5<<20) })
	s, err := git.OpenAmbient(dir, git.Options{})
	check.OK(t, err)
	defer s.Close()
	end := s.Spooling(strings.TrimSpace(gitCLI(t, dir, "", "rev-parse", "main:f0")))
	read := func(ctx context.Context, name string) error {
		f, err := vfs.WalkFile(ctx, s.Root(), name)
		if err == nil {
			_, err = f.ReadAt(ctx, make([]byte, 10), 0)
		}
		return err
	}
	done := make(chan error, 1)
	go func() { done <- read(t.Context(), "f1") }()
	select {
	case err := <-done:
		check.OK(t, err)
	case <-time.After(30 * time.Second):
		t.Error("one large file waits for another")
	}
	ctx, cancel := context.WithCancel(t.Context())
	same := make(chan error, 1)
	go func() { same <- read(ctx, "f0") }()
	cancel()
	select {
	case err := <-same:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the second reader of the same file: %v, want %v", err, context.Canceled)
		}
	case <-time.After(30 * time.Second):
		t.Error("a reader whose context has ended still waits")
	}
	end()
	check.OK(t, read(t.Context(), "f0"))
}

// Git repacks the repository while a store reads it.
func TestRepackedMeanwhile(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	first := f.commit("main", f.fill(sample))
	gitCLI(t, f.dir, "", "repack", "-adq")
	s := f.open(git.Options{Revision: "main", CacheBytes: 1})
	if got, want := content(t, s.Root(), "README"), "read me\n"; got != want {
		t.Errorf(`content(s.Root(), "README") = %q, want %q`, got, want)
	}
	for i := range 5 {
		f.commit("main", f.fill(vfstest.Tree{fmt.Sprint(i): {Data: "x"}}), first)
		gitCLI(t, f.dir, "", "tag", fmt.Sprint("t", i), "main")
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 50 {
				if got, want := content(t, s.Root(), "src/x/y/z"), "deep\n"; got != want {
					t.Errorf(`content(s.Root(), "src/x/y/z") = %q, want %q`, got, want)
				}
			}
		})
		gitCLI(t, f.dir, "", "update-ref", "refs/keep", first.String())
		gitCLI(t, f.dir, "", "repack", "-adq")
		_, err := s.Diff(t.Context(), first.String(), "main") // which looks for new packs
		check.OK(t, err)
		wg.Wait()
	}
}

// A process that is killed while it commits leaves a repository that git finds sound.
func TestKilledWhileCommitting(t *testing.T) {
	if dir := os.Getenv("GIT_TEST_COMMIT_IN"); dir != "" {
		commitForever(t, dir)
		return
	}
	needGit(t)
	f := newFixture(t)
	f.commit("main", f.fill(sample))
	for i := range 8 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileCommitting$")
		cmd.Env = append(os.Environ(), "GIT_TEST_COMMIT_IN="+f.dir)
		out, err := cmd.StdoutPipe()
		check.OK(t, err)
		check.OK(t, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, 1+i*7)) // a byte for each commit
		check.OK(t, err)
		time.Sleep(time.Duration(i) * time.Millisecond)
		check.OK(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Fatal("a process that was killed ended without an error")
		}
		sound(t, f.dir)
		if gitCLI(t, f.dir, "", "show", "main:count") == "" {
			t.Error("git show main:count is empty")
		}
		os.Remove(filepath.Join(f.dir, "refs", "heads", "main.lock")) // as the message of Busy says
	}
}

func commitForever(t *testing.T, dir string) {
	s, err := openWork(dir, git.Options{Revision: "main"})
	check.OK(t, err)
	for i := range 100_000 {
		put(t, s.Root(), "count", fmt.Sprint(os.Getpid(), i))
		put(t, s.Root(), fmt.Sprint("src/f", i%50), strings.Repeat("x", i))
		_, err := s.Commit(t.Context(), onto("main"))
		check.OK(t, err)
		os.Stdout.WriteString(".")
	}
}
