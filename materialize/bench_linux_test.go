package materialize_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"capd/backend/physical"
	"capd/materialize"
	"capd/vfs"
	"capd/vfs/membrane"
)

const benchFiles = 10_000 // in 1000 directories, of 80 MB together

// benchSource makes the files once for each benchmark, and returns their directory.
func benchSource(b *testing.B) string {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "source")
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 16<<10)
	for i := range benchFiles {
		sub := filepath.Join(dir, fmt.Sprint("d", i%10), fmt.Sprint("e", i/10%100))
		ok(b, os.MkdirAll(sub, 0o755))
		for j := range buf {
			buf[j] = byte(rnd.Uint32())
		}
		ok(b, os.WriteFile(filepath.Join(sub, fmt.Sprint("f", i)), buf[:1+rnd.IntN(len(buf))], 0o644))
	}
	return dir
}

func benchStore(b *testing.B, dir string) vfs.Dir {
	b.Helper()
	s, err := physical.OpenAmbient(dir, physical.Options{})
	ok(b, err)
	b.Cleanup(func() { s.Close() })
	return membrane.Guarded(s.Root(), nil)
}

// BenchmarkNew is to be compared with BenchmarkCopy.
func BenchmarkNew(b *testing.B) {
	d, base := benchStore(b, benchSource(b)), newBase(b, b.TempDir())
	for b.Loop() {
		t, err := base.New(b.Context(), d, materialize.Options{})
		ok(b, err)
		b.StopTimer()
		ok(b, t.Close())
		b.StartTimer()
	}
}

// BenchmarkNewLarge copies one file of 500 MB.
func BenchmarkNewLarge(b *testing.B) {
	dir := b.TempDir()
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	f, err := os.Create(filepath.Join(dir, "large"))
	ok(b, err)
	for range 500 {
		_, err := f.Write(buf)
		ok(b, err)
	}
	ok(b, f.Close())
	d, base := benchStore(b, dir), newBase(b, b.TempDir())
	for b.Loop() {
		t, err := base.New(b.Context(), d, materialize.Options{})
		ok(b, err)
		b.StopTimer()
		ok(b, t.Close())
		b.StartTimer()
	}
}

// BenchmarkCopy is cp -a of the same files.
func BenchmarkCopy(b *testing.B) {
	dir, to := benchSource(b), filepath.Join(b.TempDir(), "copy")
	for b.Loop() {
		if out, err := exec.Command("cp", "-a", dir, to).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.StopTimer()
		ok(b, os.RemoveAll(to))
		b.StartTimer()
	}
}

// BenchmarkSync syncs back 10 changed files of all those.
func BenchmarkSync(b *testing.B) {
	d := benchStore(b, benchSource(b))
	j, err := physical.OpenAmbient(b.TempDir(), physical.Options{})
	ok(b, err)
	defer j.Close()
	t, err := newBase(b, b.TempDir()).New(b.Context(), d, materialize.Options{})
	ok(b, err)
	defer t.Close()
	n := 0
	for b.Loop() {
		b.StopTimer()
		for i := range 10 {
			i *= 997
			n++
			ok(b, os.WriteFile(filepath.Join(t.Path(), fmt.Sprintf("d%d/e%d/f%d", i%10, i/10%100, i)), fmt.Append(nil, "changed ", n), 0o600))
		}
		b.StartTimer()
		r, err := t.Sync(b.Context(), j.Root(), materialize.SyncOptions{})
		ok(b, err)
		if len(r.Changes) != 10 {
			b.Fatalf("%d changes", len(r.Changes))
		}
	}
}

// BenchmarkChanges looks at all those files when none has changed.
func BenchmarkChanges(b *testing.B) {
	t, err := newBase(b, b.TempDir()).New(b.Context(), benchStore(b, benchSource(b)), materialize.Options{})
	ok(b, err)
	defer t.Close()
	for b.Loop() {
		c, err := t.Changes(b.Context())
		ok(b, err)
		if len(c.List) > 0 {
			b.Fatalf("%d changes", len(c.List))
		}
	}
}
