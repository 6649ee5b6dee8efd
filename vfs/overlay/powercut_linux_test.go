package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/tests/powercut"
	"capd/vfs"
	"capd/vfs/overlay"
)

// powerIn names, in the environment, the directory in which this process changes an
// overlay and prints a line after each change, for TestPowerCut.
const powerIn = "CAPD_OVERLAY_POWER_IN"

func init() {
	dir := os.Getenv(powerIn)
	if dir == "" {
		return
	}
	if err := changeDurably(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func changeDurably(ctx context.Context, dir string) error {
	s, err := openStores(dir)
	if err != nil {
		return err
	}
	defer s.close()
	o, err := overlay.New(ctx, s.lower.Root(), s.upper.Root(), overlay.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open")
	for i, do := range durable {
		if err := do(ctx, o.Root()); err != nil {
			return fmt.Errorf("change %d: %w", i, err)
		}
		fmt.Println(i)
	}
	return nil
}

// durable are changes that are on disk when they have answered.
var durable = []func(context.Context, vfs.Dir) error{
	func(ctx context.Context, d vfs.Dir) error { return closing(d.Mkdir(ctx, "new")) },
	func(ctx context.Context, d vfs.Dir) error { return closing(d.Create(ctx, "empty")) },
	func(ctx context.Context, d vfs.Dir) error { return d.Rename(ctx, "c", d, "moved", vfs.If{}, vfs.If{}) },
	func(ctx context.Context, d vfs.Dir) error {
		_, err := vfs.Put(ctx, d, "moved/b/new", strings.NewReader("put"), vfs.If{})
		return err
	},
	func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, "b", vfs.If{}) },
	func(ctx context.Context, d vfs.Dir) error { return vfs.Symlink(ctx, d, "link", "moved") },
	func(ctx context.Context, d vfs.Dir) error { return d.Remove(ctx, "empty", vfs.If{}) },
	func(ctx context.Context, d vfs.Dir) error {
		n, err := d.Lookup(ctx, "a")
		if err != nil {
			return err
		}
		defer n.Close()
		f := n.(vfs.File)
		if err := f.Truncate(ctx, 0, vfs.If{}); err != nil {
			return err
		}
		return f.Sync(ctx)
	},
}

// A change that has answered is there after a power cut at any moment. The one in
// progress was made or was not.
func TestPowerCut(t *testing.T) {
	dir := t.TempDir()
	s, err := openStores(dir)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s.lower.Root(), modelTree)
	s.close()

	model := laid(t, lowerOf(t, modelTree), memory.New(memory.Limits{}).Root())
	shapes := []map[string]string{shape(t, model.Root())}
	for _, do := range durable {
		if err := do(t.Context(), model.Root()); err != nil {
			t.Fatal(err)
		}
		shapes = append(shapes, shape(t, model.Root()))
	}

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), powerIn+"="+dir)
	powercut.Run(t, dir, cmd).Each(t, func(left string, said []string) error {
		s, err := openStores(left)
		if err != nil {
			return err
		}
		defer s.close()
		o, err := overlay.New(t.Context(), s.lower.Root(), s.upper.Root(), overlay.Options{})
		if err != nil {
			return err
		}
		defer o.Close()
		done := max(len(said)-1, 0)
		now := shape(t, o.Root())
		differs := differ(shapes[done], now)
		if differs == "" || done < len(durable) && differ(shapes[done+1], now) == "" {
			return nil
		}
		return errors.New("it is not as after the last change that answered:" + differs)
	})
}
