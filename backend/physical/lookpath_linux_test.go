package physical_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"capd/backend/physical"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
	"capd/vfs/vfstest/check"
)

// A look at a path of n names asks the kernel at most n times, whatever stands between
// the caller and the store.
func TestLookPathAsksTheKernel(t *testing.T) {
	dir := t.TempDir()
	const depth = 40
	deep := strings.Repeat("d/", depth)
	check.OK(t, os.MkdirAll(filepath.Join(dir, deep), 0o755))
	for n := range depth {
		check.OK(t, os.WriteFile(filepath.Join(dir, strings.Repeat("d/", n), "f"), nil, 0o600))
	}
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	defer s.Close()
	asked := s.CountAsked()
	ns := namespace.New()
	check.OK(t, ns.Mount("mount", s.Root(), namespace.Options{}))
	defer ns.Close()
	whole := membrane.Guarded(ns.Root(), nil)
	defer whole.Close()
	for what, ctx := range map[string]context.Context{"waiting": t.Context(), "trying": vfs.Trying()} {
		for n := 1; n <= depth; n++ {
			if vfs.IsTrying(ctx) && n > 15 { // a longer path is not tried
				break
			}
			for _, last := range []string{"f", "d", "none"} {
				path := strings.Repeat("d/", n-1) + last
				before := asked.Load()
				_, err := vfs.StatAt(vfs.Recalling(ctx), whole, "mount/"+path, true)
				if last == "none" {
					if !(vfs.CodeOf(err) == vfs.NotFound || err == vfs.ErrWouldBlock) {
						t.Fatalf("%s: %s: %v, want notFound or ErrWouldBlock", what, path, err)
					}
				} else {
					if err != nil {
						t.Fatalf("%s: %s: %v", what, path, err)
					}
				}
				if got := asked.Load() - before; got > int64(n) {
					t.Fatalf("%s: %s: %v > %v", what, path, got, int64(n))
				}
			}
		}
	}
}

// Nothing but directories of the served file system is passed at once.
func TestLookPathStops(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, os.MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
	check.OK(t, os.WriteFile(filepath.Join(dir, "a/b/c/f"), []byte("x"), 0o600))
	check.OK(t, os.Symlink("b", filepath.Join(dir, "a/l")))
	check.OK(t, os.Symlink("../..", filepath.Join(dir, "a/b/up")))
	check.OK(t, os.Symlink(dir, filepath.Join(dir, "a/b/absolute")))
	s, err := physical.OpenAmbient(dir, physical.Options{})
	check.OK(t, err)
	defer s.Close()
	for _, path := range []string{"a/l/c/f", "a/b/up/f", "a/b/up/a/b/c/f", "a/b/absolute/a/b/c/f", "a/b/c/f/x", "a/../a/b", "a/b/../b/c", "./a/b"} {
		_, err := vfs.LookPath(t.Context(), s.Root(), strings.Split(path, "/"))
		if got, want := err, vfs.ErrStepwise; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", path, got, want)
		}
	}
	for path, want := range map[string]vfs.Kind{"a/b/c/f": vfs.FileKind, "a/b/c": vfs.DirKind, "a/b/up": vfs.LinkKind} {
		n, err := vfs.LookPath(t.Context(), s.Root(), strings.Split(path, "/"))
		if err != nil {
			t.Fatalf("%v: %v", path, err)
		}
		if got, want := vfs.KindOf(n), want; !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %v, want %v", path, got, want)
		}
	}
	portable, err := physical.OpenAmbient(dir, physical.Options{Portable: true})
	check.OK(t, err)
	defer portable.Close()
	_, err = vfs.LookPath(t.Context(), portable.Root(), []string{"a", "l", "c", "f"})
	if got, want := err, vfs.ErrStepwise; !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, want %v", got, want)
	}
}

// TestRaceLookPath: another program exchanges a directory in the middle of a path with a
// link to one outside. What is found is inside, and so is what was seen of it.
func TestRaceLookPath(t *testing.T) {
	for what, at := range map[string]string{"first": "a", "middle": "a/b", "last": "a/b/c"} {
		for _, ctx := range []context.Context{t.Context(), vfs.Trying()} {
			t.Run(fmt.Sprintf("%s, trying %v", what, vfs.IsTrying(ctx)), func(t *testing.T) {
				w := serve(t, physical.Options{})
				w.mkdir("a/b/c")
				w.write("a/b/c/f", "inside")
				w.mkdir("../outside/a/b/c")
				w.write("../outside/a/b/c/f", "this is outside")
				w.ok(os.Symlink(strings.Repeat("../", 1+strings.Count(at, "/"))+"outside/"+at, w.host("link")))
				run(t, "exchange", w.host(at), w.host("link"))
				race(t, func(int) error {
					ctx := vfs.Recalling(ctx)
					n, err := vfs.LookPath(ctx, w.root, []string{"a", "b", "c", "f"})
					if err != nil {
						if err != vfs.ErrStepwise && err != vfs.ErrWouldBlock {
							w.is("LookPath", err, vfs.NotFound)
						}
						return err
					}
					if info, err := n.Stat(ctx); err != nil || info.Size != int64(len("inside")) {
						t.Fatalf("an escape: %+v, %v", info, err)
					}
					if got, err := w.read(n.(vfs.File)); err == nil && got != "inside" {
						t.Fatalf("an escape: read %q", got)
					}
					return nil
				})
			})
		}
	}
}
