package physical_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/backend/physical"
	"capd/vfs"
)

// committing returns a context, and inside, which reports whether a commit is in
// progress.
func committing(ctx context.Context) (_ context.Context, inside func() bool) {
	var mu sync.Mutex
	in := 0
	add := func(n int) {
		mu.Lock()
		in += n
		mu.Unlock()
	}
	ctx = vfs.OnCommit(ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
		add(1)
		defer add(-1)
		return change()
	})
	return ctx, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return in > 0
	}
}

// A revoke waits for commits. So a directory that is not empty is not read in the commit
// that refuses to remove it.
func TestRemoveReadsNothingInCommit(t *testing.T) {
	w := serve(t, physical.Options{})
	for i := range 10 {
		w.mkdir("large")
		w.write(fmt.Sprintf("large/%d", i), "x")
	}
	ctx, inside := committing(w.ctx)
	reads := 0
	w.store.Watch(func() {
		if inside() {
			reads++
		}
	})
	w.is("Remove", w.root.Remove(ctx, "large", vfs.If{}), vfs.NotEmpty)
	if reads > 0 {
		t.Errorf("directories were read %d times in the commit", reads)
	}
}

// While one guest removes directories that are not empty, and reading them takes for
// ever, another guest's changes go on.
func TestRemoveLetsOthersGoOn(t *testing.T) {
	w := serve(t, physical.Options{})
	held, let := make(chan struct{}, 64), make(chan struct{})
	w.store.Watch(func() {
		held <- struct{}{}
		<-let
	})
	var removes sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("large%d", i)
		w.mkdir(name)
		w.write(name+"/x", "x")
		removes.Go(func() { w.is("Remove", w.root.Remove(w.ctx, name, vfs.If{}), vfs.NotEmpty) })
	}
	for range 4 {
		<-held
	}
	puts := make(chan error)
	go func() {
		for i := range 256 { // more than there are locks to share
			if err := w.put(w.root, fmt.Sprint(i), "x", vfs.If{}); err != nil {
				puts <- err
				return
			}
		}
		puts <- nil
	}()
	select {
	case err := <-puts:
		w.ok(err)
	case <-time.After(30 * time.Second):
		t.Error("a put waits for the reading of a directory")
	}
	close(let)
	removes.Wait()
}

// What dead processes left staged in a directory does not prevent its removal. What a
// living process stages does.
func TestRemoveWithStagingLeftOver(t *testing.T) {
	w := serve(t, physical.Options{})
	for name, c := range map[string]struct {
		left []string
		want vfs.Code
	}{
		"dead":           {[]string{".capd-staging-0123456789abcdef0123456789abcdef", ".capd-staging-11111111111111111111111111111111"}, ""},
		"dead and other": {[]string{".capd-staging-0123456789abcdef0123456789abcdef", "other"}, vfs.NotEmpty},
		"not quite":      {[]string{".capd-staging-0"}, vfs.NotEmpty},
	} {
		w.mkdir(name)
		for _, d := range c.left {
			w.ok(os.Mkdir(filepath.Join(w.dir, name, d), 0o700))
		}
		w.is("Remove of "+name, w.root.Remove(w.ctx, name, vfs.If{}), c.want)
	}
}

// A file that loses its last name in a commit is freed after it, because that takes time
// in proportion to its size.
func TestFreedAfterTheCommit(t *testing.T) {
	for name, change := range map[string]func(w served, ctx context.Context, v vfs.Version) error{
		"Remove": func(w served, ctx context.Context, _ vfs.Version) error {
			return w.root.Remove(ctx, "large", vfs.If{})
		},
		"Remove of a version": func(w served, ctx context.Context, v vfs.Version) error {
			return w.root.Remove(ctx, "large", vfs.If{Is: v})
		},
		"Replace": func(w served, ctx context.Context, _ vfs.Version) error {
			_, err := w.root.Replace(ctx, "large", strings.NewReader("x"), vfs.If{})
			return err
		},
		"Rename over it": func(w served, ctx context.Context, v vfs.Version) error {
			return w.root.Rename(ctx, "small", w.root, "large", vfs.If{}, vfs.If{Is: v})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serve(t, physical.Options{})
			w.write("small", "x")
			w.write("large", strings.Repeat("x", 2<<20))
			v, err := vfs.VersionOf(w.ctx, w.file("large"))
			w.ok(err)
			held := 0
			ctx := vfs.OnCommit(w.ctx, func(_ vfs.Effect, change func() (vfs.Effect, error)) (vfs.Effect, error) {
				e, err := change()
				held = descriptorsBelow(w.dir, "(deleted)")
				return e, err
			})
			w.ok(change(w, ctx, v))
			if held != 1 {
				t.Errorf("at the end of the commit %d descriptors hold what was removed, want 1", held)
			}
			if left := descriptorsBelow(w.dir, "(deleted)"); left > 0 {
				t.Errorf("after the change %d descriptors hold what was removed", left)
			}
		})
	}
}

// descriptorsBelow counts the descriptors of files below dir whose description matches
// how.
func descriptorsBelow(dir, how string) (n int) {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, e := range all {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && strings.HasPrefix(to, dir) && strings.HasSuffix(to, how) {
			n++
		}
	}
	return n
}
