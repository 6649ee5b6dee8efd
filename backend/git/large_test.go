package git_test

import (
	"bytes"
	"context"
	"crypto/sha256"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"capd/backend/git"
	"capd/vfs"
	"capd/vfs/vfstest"
)

// noise is data that nothing compresses.
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

// packOf makes a bare repository with one pack of these files.
func packOf(t testing.TB, n int, file func(i int) []byte) (dir string) {
	t.Helper()
	needGit(t)
	dir = t.TempDir()
	gitCLI(t, dir, "", "init", "-q", "--bare", "-b", "main")
	cmd := gitCommand(dir, "-c", "core.compression=0", "-c", "pack.compression=0", "-c", "core.bigFileThreshold=512k", "fast-import", "--quiet")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	fmt.Fprintf(in, "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 2\nm\n")
	for i := range n {
		data := file(i)
		fmt.Fprintf(in, "M 100644 inline f%d\ndata %d\n", i, len(data))
		_, err := in.Write(data)
		require.NoError(t, err)
		fmt.Fprintln(in)
	}
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	return dir
}

// The heap stays far below the size of a pack, however its files are read, and whether
// many are small or few are large.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes packs of 100 MB")
	}
	const total = 96 << 20
	for name, size := range map[string]int{"Small": 1 << 20, "Large": 32 << 20} {
		t.Run(name, func(t *testing.T) {
			dir := packOf(t, total/size, func(i int) []byte { return noise(uint64(i), size) })
			s, err := git.OpenAmbient(dir, git.Options{CacheBytes: 8 << 20})
			require.NoError(t, err)
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
			require.NoError(t, err)
			assert.EqualValues(t, total, read)
			close(stop)
			wg.Wait()
			grown := int64(peak.Load()) - int64(before.HeapInuse)
			assert.Less(t, grown, int64(total/3))
			t.Logf("the heap grew by %d MiB", grown>>20)
		})
	}
}

// Large files are read anywhere, changed anywhere, and committed.
func TestLargeFiles(t *testing.T) {
	const size = 9 << 20
	data := noise(7, size)
	dir := packOf(t, 1, func(int) []byte { return data })
	s, err := openWork(dir, git.Options{})
	require.NoError(t, err)
	defer s.Close()
	ctx := t.Context()
	f, err := vfs.WalkFile(ctx, s.Root(), "f0")
	require.NoError(t, err)
	v, err := vfs.VersionOf(ctx, f)
	require.NoError(t, err)
	assert.Equal(t, vfs.Version(sha256.Sum256(data)), v)
	buf := make([]byte, 1000)
	for _, off := range []int64{size - 10, 0, size / 2, 5 << 20} {
		n, err := f.ReadAt(ctx, buf, off)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
		}
		assert.Equal(t, data[off:off+int64(n)], buf[:n])
	}
	n, err := f.WriteAt(ctx, []byte("written"), size/2, vfs.If{Is: v})
	require.NoError(t, err)
	assert.Equal(t, 7, n)
	copy(data[size/2:], "written")
	c, err := vfs.Open(ctx, f)
	require.NoError(t, err)
	defer c.Close()
	_, err = s.Commit(ctx, onto(""))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, []byte(gitCLI(t, dir, "", "show", "main:f0"))))
	all, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(data, all), "what was open before the commit stays so")
	sound(t, dir)
	require.ErrorIs(t, f.Truncate(ctx, 1<<40, vfs.If{}), vfs.Limit)
}

// While one large file is read for the first time, which takes as long as it is large,
// others can be; who wants the same one waits, and no longer than he has.
func TestLargeFilesOneBesideAnother(t *testing.T) {
	dir := packOf(t, 2, func(i int) []byte { return noise(uint64(i), 5<<20) })
	s, err := git.OpenAmbient(dir, git.Options{})
	require.NoError(t, err)
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
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Error("one large file waits for another")
	}
	ctx, cancel := context.WithCancel(t.Context())
	same := make(chan error, 1)
	go func() { same <- read(ctx, "f0") }()
	cancel()
	select {
	case err := <-same:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(10 * time.Second):
		t.Error("who has gone waits")
	}
	end()
	require.NoError(t, read(t.Context(), "f0"))
}

// Git packs the repository anew while a store reads it.
func TestRepackedMeanwhile(t *testing.T) {
	needGit(t)
	f := newFixture(t)
	first := f.commit("main", f.fill(sample))
	gitCLI(t, f.dir, "", "repack", "-adq")
	s := f.open(git.Options{Revision: "main", CacheBytes: 1})
	assert.Equal(t, "read me\n", content(t, s.Root(), "README"))
	for i := range 5 {
		f.commit("main", f.fill(vfstest.Tree{fmt.Sprint(i): {Data: "x"}}), first)
		gitCLI(t, f.dir, "", "tag", fmt.Sprint("t", i), "main")
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 50 {
				assert.Equal(t, "deep\n", content(t, s.Root(), "src/x/y/z"))
			}
		})
		gitCLI(t, f.dir, "", "update-ref", "refs/keep", first.String())
		gitCLI(t, f.dir, "", "repack", "-adq")
		_, err := s.Diff(t.Context(), first.String(), "main") // which looks for what is new
		require.NoError(t, err)
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
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, 1+i*7)) // a byte for each commit
		require.NoError(t, err)
		time.Sleep(time.Duration(i) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		sound(t, f.dir)
		assert.NotEmpty(t, gitCLI(t, f.dir, "", "show", "main:count"))
		os.Remove(filepath.Join(f.dir, "refs", "heads", "main.lock")) // as its message says
	}
}

func commitForever(t *testing.T, dir string) {
	s, err := openWork(dir, git.Options{Revision: "main"})
	require.NoError(t, err)
	for i := range 100_000 {
		put(t, s.Root(), "count", fmt.Sprint(os.Getpid(), i))
		put(t, s.Root(), fmt.Sprint("src/f", i%50), strings.Repeat("x", i))
		_, err := s.Commit(t.Context(), onto("main"))
		require.NoError(t, err)
		os.Stdout.WriteString(".")
	}
}
