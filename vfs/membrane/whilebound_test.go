package membrane_test

import (
	"context"
	"testing"
	"time"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// hashing is a directory whose files never finish computing a version.
type hashing struct {
	vfs.Dir
	begun chan struct{}
}

func (h hashing) forever(ctx context.Context) error {
	h.begun <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (h hashing) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := h.Dir.Lookup(ctx, name)
	if f, ok := n.(vfs.File); ok {
		return hashingFile{f, h}, err
	}
	return n, err
}

func (h hashing) Remove(ctx context.Context, _ string, _ vfs.If) error { return h.forever(ctx) }
func (h hashing) Rename(ctx context.Context, _ string, _ vfs.Dir, _ string, _, _ vfs.If) error {
	return h.forever(ctx)
}

type hashingFile struct {
	vfs.File
	h hashing
}

func (f hashingFile) Version(ctx context.Context) (vfs.Version, error) {
	return vfs.Version{}, f.h.forever(ctx)
}
func (f hashingFile) WriteAt(ctx context.Context, _ []byte, _ int64, _ vfs.If) (int, error) {
	return 0, f.h.forever(ctx)
}
func (f hashingFile) Truncate(ctx context.Context, _ int64, _ vfs.If) error {
	return f.h.forever(ctx)
}

// A call that may read a whole file for its version ends when the right to it is taken
// back.
func TestRevokeEndsHashing(t *testing.T) {
	is1 := vfs.If{Is: vfs.Version{1}}
	for name, do := range map[string]func(ctx context.Context, d, other vfs.Dir, f vfs.File) error{
		"version": func(ctx context.Context, _, _ vfs.Dir, f vfs.File) error { _, err := vfs.VersionOf(ctx, f); return err },
		"write": func(ctx context.Context, _, _ vfs.Dir, f vfs.File) error {
			_, err := f.WriteAt(ctx, nil, 0, is1)
			return err
		},
		"truncate": func(ctx context.Context, _, _ vfs.Dir, f vfs.File) error { return f.Truncate(ctx, 0, is1) },
		"remove":   func(ctx context.Context, d, _ vfs.Dir, _ vfs.File) error { return d.Remove(ctx, "f", is1) },
		"rename": func(ctx context.Context, d, _ vfs.Dir, _ vfs.File) error {
			return d.Rename(ctx, "f", d, "g", is1, vfs.If{})
		},
		"rename to another grant": func(ctx context.Context, d, other vfs.Dir, _ vfs.File) error {
			return other.Rename(ctx, "f", d, "g", vfs.If{}, vfs.If{})
		},
	} {
		for _, expire := range []bool{false, true} {
			_, raw := check.Store(t, check.Sample)
			slow := hashing{raw, make(chan struct{})}
			d, c := check.Controlled(t, membrane.Guarded(slow, nil))
			f := check.FileAt(t, d, "f")
			done := make(chan error, 1)
			go func() { done <- do(t.Context(), d, membrane.Guarded(slow, nil), f) }()
			select {
			case <-slow.begun:
			case err := <-done:
				t.Fatalf("%s: ended with %v", name, err)
			}
			want := vfs.Revoked
			if expire {
				want = vfs.Expired
				c.ExpireAt(time.Now())
			} else {
				check.OK(t, c.Revoke())
			}
			select {
			case err := <-done:
				check.Is(t, name, err, want)
			case <-time.After(30 * time.Second):
				t.Fatalf("%s goes on after the revoke", name)
			}
			if n := membrane.Watchers(c.Gate); n != 0 {
				t.Errorf("%s: %d watch still", name, n)
			}
		}
	}
}

// A caller that gives up is told so, and not that a right was taken back.
func TestHashingCancelled(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	slow := hashing{raw, make(chan struct{})}
	f := check.FileAt(t, membrane.Guarded(slow, nil), "f")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-slow.begun
		cancel()
	}()
	if _, err := vfs.VersionOf(ctx, f); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

// giant is a file of holes.
type giant struct {
	vfs.File
	size int64
}

func (g giant) Stat(context.Context) (vfs.Info, error) {
	return vfs.Info{Kind: vfs.FileKind, Size: g.size}, nil
}
func (g giant) ReadAt(_ context.Context, p []byte, _ int64) (int, error) { return len(p), nil }

func TestVersionOfGiant(t *testing.T) {
	_, err := vfs.VersionOf(t.Context(), giant{size: vfs.MaxVersioned + 1})
	check.Is(t, "too large", err, vfs.TooLarge)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := vfs.VersionOf(ctx, giant{size: vfs.MaxVersioned}); err != context.DeadlineExceeded {
		t.Errorf("out of time: %v", err)
	}
}
