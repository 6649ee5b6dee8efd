package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/operator"
	"capd/state"
	"capd/tests/powercut"
	"capd/vfs"
	"capd/vfs/diff"
)

// The environment of a process that keeps changes, for TestPowerCutOfKept: its state
// directory, and the tree beneath.
const (
	keptVar  = "CAPD_TEST_KEPT"
	lowerVar = "CAPD_TEST_KEPT_LOWER"
)

func init() {
	dir := os.Getenv(keptVar)
	if dir == "" {
		return
	}
	if err := keepAndDrop(context.Background(), dir, os.Getenv(lowerVar)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// drafted opens the state directory with an overlay that keeps its changes.
func drafted(ctx context.Context, dir, lower string) (*FS, error) {
	f, err := OpenFS(ctx, state.Dir(dir), FSOptions{Logf: func(string, ...any) {}})
	if err != nil {
		return nil, err
	}
	if err := f.Mount(ctx, "draft", "overlay:keep:physical:"+lower, operator.Attenuation{}); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func keepAndDrop(ctx context.Context, dir, lower string) error {
	f, err := drafted(ctx, dir, lower)
	if err != nil {
		return err
	}
	d, err := f.Dir(ctx, "draft")
	if err != nil {
		return err
	}
	if _, err := vfs.Put(ctx, d, "f", strings.NewReader("new"), vfs.If{}); err != nil {
		return err
	}
	fmt.Println("put")
	made, err := d.Mkdir(ctx, "d")
	if err != nil {
		return err
	}
	fmt.Println("made")
	made.Close()
	d.Close()
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Println("closed")
	if f, err = drafted(ctx, dir, lower); err != nil {
		return err
	}
	if _, err := f.Revert(ctx, "draft", nil); err != nil {
		return err
	}
	fmt.Println("reverted")
	if err := f.Close(); err != nil {
		return err
	}
	fmt.Println("removed")
	return nil
}

// After a power cut at any moment, changes that are kept are there as far as they were
// answered, and so is a revert of them. The place where none waits is removed.
func TestPowerCutOfKept(t *testing.T) {
	dir, lower := t.TempDir(), t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), keptVar+"="+filepath.Join(dir, "state"), lowerVar+"="+lower)
	// What may be there after each of the lines that are printed.
	after := map[int][]string{0: {"", "f"}, 1: {"f", "d f"}, 2: {"d f"}, 3: {"d f", ""}, 4: {""}, 5: {""}}
	powercut.Run(t, dir, cmd).Each(t, func(left string, said []string) error {
		f, err := drafted(t.Context(), filepath.Join(left, "state"), lower)
		if err != nil {
			return err
		}
		var all []string
		_, err = f.Diff(t.Context(), "draft", operator.DiffOptions{}, "", func(c diff.Change) bool {
			all = append(all, c.Path)
			return true
		})
		if got := strings.Join(all, " "); err == nil && !slices.Contains(after[len(said)], got) {
			err = fmt.Errorf("the changes are %q", got)
		}
		if closed := f.Close(); err == nil {
			err = closed
		}
		if places, _ := os.ReadDir(filepath.Join(left, "state", "changes")); err == nil && len(said) > 3 && len(places) > 0 {
			if k, listErr := ListKept(t.Context(), state.Dir(filepath.Join(left, "state"))); listErr != nil || len(k) > 0 {
				err = errors.Join(fmt.Errorf("%v is left", k), listErr)
			}
		}
		return err
	})
}

// What is kept counts against the bound of the overlay after a restart.
func TestKeptBound(t *testing.T) {
	dir, lower := t.TempDir(), t.TempDir()
	put := func(name string, want vfs.Code) {
		t.Helper()
		f, err := OpenFS(t.Context(), state.Dir(dir), FSOptions{Logf: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Mount(t.Context(), "draft", "overlay:keep,max=100KiB:physical:"+lower, operator.Attenuation{}); err != nil {
			t.Fatal(err)
		}
		d, err := f.Dir(t.Context(), "draft")
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = vfs.Put(t.Context(), d, name, strings.NewReader(strings.Repeat("x", 50<<10)), vfs.If{})
		if vfs.CodeOf(err) != want {
			t.Errorf("a put of %s: %v, want %q", name, err, want)
		}
	}
	put("one", "")
	put("two", vfs.Quota)
	put("one", vfs.Quota) // it needs room for the old content and the new
}

// Only this user can look into the places where changes are kept.
func TestKeptIsPrivate(t *testing.T) {
	dir, lower := t.TempDir(), t.TempDir()
	f, err := drafted(t.Context(), dir, lower)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for pattern, want := range map[string]os.FileMode{
		"changes": 0o700, "changes/*": 0o700, "changes/*/upper": 0o700, "changes/*/lock": 0o600, "changes/*/mount.json": 0o600,
	} {
		all, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(all) != 1 {
			t.Fatalf("%s is %v, %v", pattern, all, err)
		}
		fi, err := os.Stat(all[0])
		if err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s is %v, %v, want %v", pattern, fi.Mode(), err, want)
		}
	}
}
