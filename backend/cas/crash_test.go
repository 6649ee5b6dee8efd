package cas_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/vfs"
)

// numbered makes the tree called n: some files of its own, and some that all trees have.
func numbered(ctx context.Context, n int) (vfs.Dir, error) {
	root := memory.New(memory.Limits{}).Root()
	for _, name := range []string{"own", "shared"} {
		d, err := root.Mkdir(ctx, name)
		if err != nil {
			return nil, err
		}
		for i := range 8 {
			data := fmt.Sprintf("shared %d", i)
			if name == "own" {
				data = strings.Repeat(fmt.Sprintf("%d of %d\n", i, n), 1+n%1000)
			}
			if _, err := d.Replace(ctx, fmt.Sprint(i), strings.NewReader(data), vfs.If{}); err != nil {
				return nil, err
			}
		}
	}
	return root, nil
}

// putNumbered puts the tree called n and pins it, as the programs below do.
func putNumbered(ctx context.Context, s *cas.Store, n int, pin string) (cas.Digest, error) {
	d, err := numbered(ctx, n)
	if err != nil {
		return cas.Digest{}, err
	}
	return cas.Put(ctx, s, d, cas.PutOptions{Pin: pin})
}

func init() {
	// put one tree, unpin it, and collect: everything that changes a store, in order.
	other["once"] = func(args []string) error {
		ctx := context.Background()
		s, err := cas.OpenAmbient(args[0], cas.Options{})
		if err != nil {
			return err
		}
		if _, err := putNumbered(ctx, s, 1, "once"); err != nil {
			return err
		}
		if err := s.Unpin(ctx, "once"); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // so that all of it is older than the horizon
		_, err = s.Collect(ctx, now)
		return err
	}
	// put, unpin and collect until killed.
	other["forever"] = func(args []string) error {
		ctx := context.Background()
		s, err := cas.OpenAmbient(args[0], cas.Options{})
		if err != nil {
			return err
		}
		for n := 0; ; n++ {
			if _, err := putNumbered(ctx, s, n%50, fmt.Sprint("f", n%3)); err != nil {
				return err
			}
			if n%5 == 4 {
				if _, err := s.Collect(ctx, now); err != nil && vfs.CodeOf(err) != vfs.Busy {
					return err
				}
			}
		}
	}
}

// sound checks what must hold of a store whenever its processes stopped: every blob
// matches its name, what is pinned is whole, and the store can be used.
func sound(t *testing.T, dir string) {
	t.Helper()
	s := reopen(t, dir)
	if err := truthful(dir); err != nil {
		t.Error(err)
	}
	pins, err := s.Pins(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pins {
		whole(t, s, p.Root)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("tmp was not swept: %v, %v", left, err)
	}
	root, err := putNumbered(t.Context(), s, 1, "again")
	if err != nil {
		t.Fatal(err)
	}
	whole(t, s, root)
	collect(t, s, now)
	if left, err := os.ReadDir(filepath.Join(dir, "leases")); err != nil || len(left) > 0 {
		t.Errorf("leases of nobody are left: %v, %v", left, err)
	}
	whole(t, s, root)
}

// truthful checks that every file with the name of a blob is that blob.
func truthful(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if sum := sha256.Sum256(data); err == nil && hex.EncodeToString(sum[:]) != filepath.Base(filepath.Dir(path))+filepath.Base(path) {
			err = fmt.Errorf("a blob is not what its name says: it is %q", data)
		}
		return err
	})
}

// TestKilledAtEveryStep stops a process as kill -9 does, at each step of what changes a
// store.
func TestKilledAtEveryStep(t *testing.T) {
	for _, step := range []string{"staged", "flushed", "placed", "committed", "pinning", "pinned", "marked", "removing", "removed"} {
		for _, nth := range []int{1, 2, 7} {
			if nth > 1 && step != "placed" && !strings.HasPrefix(step, "remov") {
				continue
			}
			t.Run(fmt.Sprint(step, " ", nth), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "store")
				if _, err := putNumbered(t.Context(), reopen(t, dir), 2, "kept"); err != nil {
					t.Fatal(err)
				}
				cmd := program("once", dir)
				cmd.Env = append(cmd.Env, fmt.Sprint(cas.KillAt, "=", step, " ", nth))
				cmd.Stderr = nil
				if err := cmd.Run(); err == nil || cmd.ProcessState.Exited() && runtime.GOOS != "windows" {
					t.Fatalf("the process was not killed: %v", err)
				}
				sound(t, dir)
			})
		}
	}
}

func TestKilledAtAnyTime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	kills := 20
	if testing.Short() {
		kills = 4
	}
	for range kills {
		cmd := run(t, "forever", dir)
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		sound(t, dir)
	}
}
