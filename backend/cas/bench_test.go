package cas_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/backend/physical"
	"capd/vfs"
)

// The size of what is measured, in bytes and in files. The goal is stated for
// CAPD_CAS_BENCH_BYTES=1073741824 CAPD_CAS_BENCH_FILES=10000.
const (
	benchBytes = "CAPD_CAS_BENCH_BYTES"
	benchFiles = "CAPD_CAS_BENCH_FILES"
)

func sizeOf(variable string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// BenchmarkAgainstSha256sum puts a tree and reads it back, each time beside sha256sum on
// the same files. It reports the ratio of the rates: 1 is as fast as sha256sum.
func BenchmarkAgainstSha256sum(b *testing.B) {
	if _, err := exec.LookPath("sha256sum"); err != nil {
		b.Skip("there is no sha256sum here")
	}
	bytes, files := sizeOf(benchBytes, 64<<20), sizeOf(benchFiles, 640)
	dir := b.TempDir()
	random := rand.NewChaCha8([32]byte{})
	content := make([]byte, bytes/files)
	for i := range files {
		random.Read(content)
		path := filepath.Join(dir, fmt.Sprintf("%02d/%05d", i%100, i))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	source, err := physical.OpenAmbient(dir, physical.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer source.Close()
	exec.Command("sync").Run() // what was just written is not to be written beside the first put

	var summing, putting, reading time.Duration
	timed := func(total *time.Duration, f func() error) {
		start := time.Now()
		if err := f(); err != nil {
			b.Fatal(err)
		}
		*total += time.Since(start)
	}
	b.SetBytes(bytes)
	for b.Loop() {
		where := filepath.Join(b.TempDir(), "store")
		s := reopen(b, where)
		var root cas.Digest
		timed(&summing, func() error {
			return exec.Command("find", dir, "-type", "f", "-exec", "sha256sum", "{}", "+").Run()
		})
		timed(&putting, func() (err error) {
			root, err = cas.Put(b.Context(), s, source.ReadOnlyRoot(), cas.PutOptions{Pin: "t"})
			return err
		})
		s = reopen(b, where) // which has verified nothing
		timed(&reading, func() error {
			tree, err := cas.Open(b.Context(), s, root)
			if err != nil {
				return err
			}
			defer tree.Close()
			return readTree(b.Context(), tree)
		})
	}
	b.ReportMetric(summing.Seconds()/putting.Seconds(), "put/sha256sum")
	b.ReportMetric(summing.Seconds()/reading.Seconds(), "read/sha256sum")
}

// readTree reads every file below d, one after another.
func readTree(ctx context.Context, d vfs.Dir) error {
	for e, err := range d.List(ctx) {
		if err != nil {
			return err
		}
		n, err := d.Lookup(ctx, e.Name)
		if err != nil {
			return err
		}
		switch n := n.(type) {
		case vfs.Dir:
			err = readTree(ctx, n)
		case vfs.File:
			err = readFile(ctx, n, io.Discard)
		}
		n.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func readFile(ctx context.Context, f vfs.File, to io.Writer) error {
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.Copy(to, io.NewSectionReader(c, 0, c.Size()))
	return err
}
