package copier_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"capd/backend/physical"
	"capd/vfs/copier"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// benchTree makes 10,000 files in 1000 directories, of 80 MB together, below tree in a
// directory of the host.
func benchTree(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 16<<10)
	for i := range 10_000 {
		sub := filepath.Join(dir, "tree", fmt.Sprint("d", i%10), fmt.Sprint("e", i/10%100))
		check.OK(b, os.MkdirAll(sub, 0o755))
		for j := range buf {
			buf[j] = byte(rnd.Uint32())
		}
		check.OK(b, os.WriteFile(filepath.Join(sub, fmt.Sprint("f", i)), buf[:1+rnd.IntN(len(buf))], 0o644))
	}
	return dir
}

// BenchmarkDuplicate copies them within a store. Each file is on disk when it ends, as
// it is not with cp.
func BenchmarkDuplicate(b *testing.B) {
	dir := benchTree(b)
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(b, err)
	defer s.Close()
	root := membrane.Guarded(s.Root(), nil)
	for _, workers := range []int{1, 0} {
		b.Run(fmt.Sprint("workers ", workers), func(b *testing.B) {
			for b.Loop() {
				check.OK(b, copier.Duplicate(b.Context(), copier.Spot{Dir: root, Name: "tree"}, copier.Spot{Dir: root, Name: "copy"}, copier.Options{Workers: workers}))
				b.StopTimer()
				check.OK(b, os.RemoveAll(filepath.Join(dir, "copy")))
				b.StartTimer()
			}
		})
	}
}

// BenchmarkCp is cp -a of the same files.
func BenchmarkCp(b *testing.B) {
	dir := benchTree(b)
	for b.Loop() {
		if out, err := exec.Command("cp", "-a", "--reflink=auto", filepath.Join(dir, "tree"), filepath.Join(dir, "copy")).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		b.StopTimer()
		check.OK(b, os.RemoveAll(filepath.Join(dir, "copy")))
		b.StartTimer()
	}
}
