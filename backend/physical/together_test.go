package physical_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
)

// For guests, a file is the same file through all Stores of this process that show it: if
// two changes in place rely on the same version, one is a conflict.
func TestStoresTogether(t *testing.T) {
	for name, open := range map[string]func(dir string) (a, b, pathA, pathB string){
		"the same directory": func(dir string) (a, b, pathA, pathB string) { return dir, dir, "sub/n", "sub/n" },
		"one in the other":   func(dir string) (a, b, pathA, pathB string) { return dir, filepath.Join(dir, "sub"), "sub/n", "n" },
		"the other in the one": func(dir string) (a, b, pathA, pathB string) {
			return filepath.Join(dir, "sub"), dir, "n", "sub/n"
		},
		"by a link": func(dir string) (a, b, pathA, pathB string) {
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(filepath.Join(dir, "sub"), link); err != nil {
				t.Skip(err)
			}
			return dir, link, "sub/n", "n"
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
				t.Fatal(err)
			}
			dirA, dirB, pathA, pathB := open(dir)
			countTogether(t, filepath.Join(dir, "sub", "n"), dirA, pathA, dirB, pathB)
		})
	}
}

// countTogether makes two callers increment the number in one file, each through a Store
// of its own.
func countTogether(t *testing.T, file, dirA, pathA, dirB, pathB string) {
	const each = 300
	if err := os.WriteFile(file, []byte("000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for dir, path := range map[string]string{dirA: pathA, dirB + string(filepath.Separator): pathB} {
		s, err := physical.OpenAmbient(dir, physical.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		wg.Go(func() {
			for range each {
				if err := increment(t.Context(), s.Root(), path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(file)
	if want := fmt.Sprintf("%06d", 2*each); err != nil || string(text) != want {
		t.Errorf("counted to %s, %v; want %s", text, err, want)
	}
}

// increment adds one to the number in a file, in place, and tries until it succeeds.
func increment(ctx context.Context, d vfs.Dir, path string) error {
	f, err := vfs.WalkFile(ctx, d, path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		var b [6]byte
		v, err := vfs.VersionOf(ctx, f)
		if errors.Is(err, vfs.Busy) { // it is written all the while
			continue
		}
		if err != nil {
			return err
		}
		if _, err := f.ReadAt(ctx, b[:], 0); err != nil {
			return err
		}
		var n int
		if _, err := fmt.Sscanf(strings.TrimLeft(string(b[:5]), "0")+string(b[5:]), "%d", &n); err != nil {
			return err
		}
		_, err = f.WriteAt(ctx, fmt.Appendf(nil, "%06d", n+1), 0, vfs.If{Is: v})
		if err == nil || !errors.Is(err, vfs.Conflict) && !errors.Is(err, vfs.Busy) {
			return err
		}
	}
}
