package overlay_test

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/overlay"
	"capd/vfs/vfstest"
)

// held is an overlay in which one call waits for a long file or directory, in the lower
// or the upper store, while others go on.
type held struct {
	*testing.T
	o            *overlay.Overlay
	lower, upper *faultfs.Plan
	root, below  vfs.Dir // below is the lower tree without the plan
}

// long is longer than what is read while others wait.
var long = strings.Repeat("0123456789abcdef", 1<<14)

func newHeld(t *testing.T) *held {
	h := &held{T: t, lower: &faultfs.Plan{}, upper: &faultfs.Plan{}}
	tree := vfstest.Tree{
		"big": {Data: long}, "other": {Data: "other"}, "small": {Data: "small"}, "other2": {Data: "2"}, "d/f": {Data: "f"}, "full/f": {Data: "f"},
	}
	h.below = lowerOf(t, tree)
	h.o = laid(t, faultfs.New(h.below, h.lower), faultfs.New(memoryUpper(t), h.upper))
	h.root = h.o.Root()
	t.Cleanup(func() { h.root.Close(); h.o.Close() })
	return h
}

func (h *held) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// inPlace runs do on the file at path.
func (h *held) inPlace(ctx context.Context, path string, do func(vfs.File) error) error {
	f, err := vfs.WalkFile(ctx, h.root, path)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// others makes changes that have nothing to do with what is long.
func (h *held) others(ctx context.Context) error {
	if _, err := vfs.Put(ctx, h.root, "new", strings.NewReader("new"), vfs.If{}); err != nil {
		return err
	}
	if _, err := vfs.Put(ctx, h.root, "other", strings.NewReader("changed"), vfs.If{}); err != nil {
		return err
	}
	if d, err := h.root.Mkdir(ctx, "made"); err != nil {
		return err
	} else {
		d.Close()
	}
	err := h.inPlace(ctx, "small", func(f vfs.File) error { // which copies it
		_, err := f.WriteAt(ctx, []byte("S"), 0, vfs.If{})
		return err
	})
	if err != nil {
		return err
	}
	return h.root.Remove(ctx, "new", vfs.If{})
}

// calls are those that look at something long, and the place where they wait for it.
var calls = map[string]struct {
	at    func(h *held) *faultfs.Pause
	setUp func(h *held)
	do    func(h *held, ctx context.Context) error
}{
	"Remove": {at: versionBelow, do: func(h *held, ctx context.Context) error { return h.root.Remove(ctx, "big", vfs.If{}) }},
	"Replace": {at: versionBelow, do: func(h *held, ctx context.Context) error {
		_, err := vfs.Put(ctx, h.root, "big", strings.NewReader("put"), vfs.If{})
		return err
	}},
	"Remove of a version": {at: versionBelow, do: func(h *held, ctx context.Context) error {
		return h.root.Remove(ctx, "big", vfs.If{Is: sumOf(long)})
	}},
	"Replace of a version": {at: versionBelow, do: func(h *held, ctx context.Context) error {
		_, err := vfs.Put(ctx, h.root, "big", strings.NewReader("put"), vfs.If{Is: sumOf(long)})
		return err
	}},
	"Replace of a version that was written": {
		setUp: func(h *held) { h.must(h.write("big", long)) },
		at:    func(h *held) *faultfs.Pause { return h.upper.Pause(faultfs.Version, faultfs.Before, 1) },
		do: func(h *held, ctx context.Context) error {
			_, err := vfs.Put(ctx, h.root, "big", strings.NewReader("put"), vfs.If{Is: sumOf(long)})
			return err
		}},
	"Rename over a version": {at: versionBelow, do: func(h *held, ctx context.Context) error {
		return h.root.Rename(ctx, "other2", h.root, "big", vfs.If{}, vfs.If{Is: sumOf(long)})
	}},
	"Rename of a version": {at: versionBelow, do: func(h *held, ctx context.Context) error {
		return h.root.Rename(ctx, "big", h.root, "moved", vfs.If{Is: sumOf(long)}, vfs.If{})
	}},
	"WriteAt, the version": {at: versionBelow, do: writes},
	"WriteAt, the copy":    {at: contentBelow, do: writes},
	"Append, the copy":     {at: contentBelow, do: appends},
	"Truncate, the copy":   {at: contentBelow, do: truncates},
	"WriteAt on a version": {at: versionBelow, do: writesIf},
	"Sync of what is long": {at: func(h *held) *faultfs.Pause { return h.upper.Pause(faultfs.Sync, faultfs.Before, 1) }, setUp: func(h *held) { h.must(h.write("big", long)) }, do: syncs},
	"Remove of a directory": {at: func(h *held) *faultfs.Pause { return h.lower.Pause(faultfs.List, faultfs.Before, 1) }, do: func(h *held, ctx context.Context) error {
		err := h.root.Remove(ctx, "full", vfs.If{})
		if vfs.CodeOf(err) == vfs.NotEmpty {
			return nil
		}
		return vfs.Errorf(vfs.Internal, "Remove of a directory that holds something: %v", err)
	}},
	"Remove of a long content": {
		setUp: func(h *held) { h.must(h.write("big", long)) },
		at:    func(h *held) *faultfs.Pause { return h.upper.Pause(faultfs.Remove, faultfs.Before, 1) },
		do:    func(h *held, ctx context.Context) error { return h.root.Remove(ctx, "big", vfs.If{}) },
	},
	"Changed": {
		setUp: func(h *held) { h.must(h.root.Rename(h.Context(), "big", h.root, "moved", vfs.If{}, vfs.If{})) },
		at:    versionBelow,
		do: func(h *held, ctx context.Context) error {
			changed, err := h.o.Changed(ctx)
			if err == nil && !changed {
				err = vfs.Errorf(vfs.Internal, "there are changes")
			}
			return err
		},
	},
	"Diff": {
		setUp: func(h *held) { h.must(h.root.Rename(h.Context(), "big", h.root, "moved", vfs.If{}, vfs.If{})) },
		at:    versionBelow,
		do:    func(h *held, ctx context.Context) error { _, err := h.o.Diff(ctx, ""); return err },
	},
}

func versionBelow(h *held) *faultfs.Pause { return h.lower.Pause(faultfs.Version, faultfs.Before, 1) }
func contentBelow(h *held) *faultfs.Pause { return h.lower.Pause(faultfs.Content, faultfs.Before, 1) }

func (h *held) write(path, data string) error {
	_, err := vfs.Put(h.Context(), h.root, path, strings.NewReader(data), vfs.If{})
	return err
}

func writes(h *held, ctx context.Context) error {
	return h.inPlace(ctx, "big", func(f vfs.File) error {
		_, err := f.WriteAt(ctx, []byte("X"), 3, vfs.If{})
		return err
	})
}

func writesIf(h *held, ctx context.Context) error {
	return h.inPlace(ctx, "big", func(f vfs.File) error {
		_, err := f.WriteAt(ctx, []byte("X"), 3, vfs.If{Is: sumOf(long)})
		return err
	})
}

func appends(h *held, ctx context.Context) error {
	return h.inPlace(ctx, "big", func(f vfs.File) error {
		_, err := vfs.Append(ctx, f, []byte("X"), vfs.If{})
		return err
	})
}

func truncates(h *held, ctx context.Context) error {
	return h.inPlace(ctx, "big", func(f vfs.File) error { return f.Truncate(ctx, int64(len(long))-1, vfs.If{}) })
}

func syncs(h *held, ctx context.Context) error {
	return h.inPlace(ctx, "big", func(f vfs.File) error { return f.Sync(ctx) })
}

// While one call waits for something long, others on the same overlay go on.
func TestOthersGoOn(t *testing.T) {
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			if c.setUp != nil {
				c.setUp(h)
			}
			pause := c.at(h)
			done, over := make(chan error, 1), make(chan error, 1)
			go func() { done <- c.do(h, t.Context()) }()
			select {
			case <-pause.Reached():
			case err := <-done:
				t.Fatalf("it does not come to where it should wait: %v", err)
			}
			go func() { over <- h.others(t.Context()) }()
			select {
			case err := <-over:
				h.must(err)
			case <-time.After(30 * time.Second):
				t.Error("others wait for it")
			}
			pause.Resume()
			h.must(<-done)
		})
	}
}

// The long operation is abandoned when the caller gives up.
func TestLongEndsWithItsContext(t *testing.T) {
	for name, c := range calls {
		if name == "Remove of a long content" || name == "Sync of what is long" {
			continue // the change was made; the store's own
		}
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			if c.setUp != nil {
				c.setUp(h)
			}
			pause := c.at(h)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- c.do(h, ctx) }()
			<-pause.Reached()
			cancel()
			pause.Resume()
			if err := <-done; err == nil {
				t.Error("it was done for nobody")
			}
			h.must(h.others(t.Context()))
		})
	}
}

func sumOf(data string) vfs.Version { return sha256.Sum256([]byte(data)) }

func TestPutYields(t *testing.T) {
	o, err := overlay.New(t.Context(), memory.New(memory.Limits{}).Root(), memory.New(memory.Limits{}).Root(), overlay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	vfstest.Yields(t, o.Root())
}
