package overlay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/overlay"
)

// If the lower file changes while a call looks at it, the call or the Apply answers
// conflict, or the new content is in the result. It is not replaced by what was made
// from the old content.
func TestOvertaken(t *testing.T) {
	for name, do := range map[string]func(h *held, ctx context.Context, file string) error{
		"Replace": func(h *held, ctx context.Context, file string) error {
			_, err := vfs.Put(ctx, h.root, file, strings.NewReader("put"), vfs.If{})
			return err
		},
		"Replace of a version": func(h *held, ctx context.Context, file string) error {
			_, err := vfs.Put(ctx, h.root, file, strings.NewReader("put"), vfs.If{Is: h.is(file)})
			return err
		},
		"Remove of a version": func(h *held, ctx context.Context, file string) error {
			return h.root.Remove(ctx, file, vfs.If{Is: h.is(file)})
		},
		"Rename over a version": func(h *held, ctx context.Context, file string) error {
			return h.root.Rename(ctx, "other2", h.root, file, vfs.If{}, vfs.If{Is: h.is(file)})
		},
		"WriteAt": func(h *held, ctx context.Context, file string) error {
			return h.inPlace(ctx, file, func(f vfs.File) error {
				_, err := f.WriteAt(ctx, []byte("X"), 3, vfs.If{})
				return err
			})
		},
		"WriteAt on a version": func(h *held, ctx context.Context, file string) error {
			return h.inPlace(ctx, file, func(f vfs.File) error {
				_, err := f.WriteAt(ctx, []byte("X"), 3, vfs.If{Is: h.is(file)})
				return err
			})
		},
		"Append": func(h *held, ctx context.Context, file string) error {
			return h.inPlace(ctx, file, func(f vfs.File) error {
				_, err := vfs.Append(ctx, f, []byte("X"), vfs.If{})
				return err
			})
		},
		"Truncate": func(h *held, ctx context.Context, file string) error {
			return h.inPlace(ctx, file, func(f vfs.File) error { return f.Truncate(ctx, 3, vfs.If{}) })
		},
	} {
		for _, file := range []string{"small", "big"} {
			for _, op := range []faultfs.Op{faultfs.Version, faultfs.Stat, faultfs.Open, faultfs.Content} {
				t.Run(fmt.Sprintf("%s/%s/%v", name, file, op), func(t *testing.T) {
					if name != "Replace" { // which replaces whatever is there
						for nth := 1; overtake(newHeld(t), file, op, nth, do, false); nth++ {
						}
					}
					if name != "Remove of a version" && name != "Rename over a version" { // whether it is executable is no part of a version
						for nth := 1; overtake(newHeld(t), file, op, nth, do, true); nth++ {
						}
					}
				})
			}
		}
	}
}

// is returns the version that file has at first.
func (h *held) is(file string) vfs.Version {
	if file == "big" {
		return sumOf(long)
	}
	return sumOf("small")
}

// overtake changes the lower file after the nth op of do: its content, or only whether
// it is executable. It returns false if do makes fewer.
func overtake(h *held, file string, op faultfs.Op, nth int, do func(*held, context.Context, string) error, exec bool) bool {
	ctx := h.Context()
	pause := h.lower.Pause(op, faultfs.After, nth)
	done := make(chan error, 1)
	go func() { done <- do(h, ctx, file) }()
	select {
	case <-pause.Reached():
	case err := <-done:
		h.must(err)
		return false
	}
	theirs := text(h.T, h.below, file)
	if !exec {
		theirs = "T" + theirs[1:]
	}
	_, err := vfs.Install(ctx, h.below, file, strings.NewReader(theirs), exec, vfs.If{})
	h.must(err)
	pause.Resume()
	err = <-done
	if err == nil {
		_, err = h.o.Apply(ctx, overlay.ApplyOptions{Journal: memoryUpper(h.T)})
	}
	if err != nil {
		if code := vfs.CodeOf(err); code != vfs.Conflict {
			h.Errorf("the file changes after %v %d: %v, want conflict", op, nth, err)
		}
		return true
	}
	if n, err := vfs.Walk(ctx, h.below, file); err != nil {
		h.Errorf("the file changes after %v %d: no conflict, and then %v", op, nth, err)
	} else if info, err := n.Stat(ctx); err != nil || info.Exec != exec || !exec && !strings.HasPrefix(text(h.T, h.below, file), "T") {
		h.Errorf("the file changes after %v %d: no conflict, and that change is lost: %.20q, %v", op, nth, text(h.T, h.below, file), err)
	}
	return true
}

// What is copied while the lower file has another content is not taken for a change of
// the content that it has before and after.
func TestCopyOfAnother(t *testing.T) {
	for name, do := range map[string]func(*held, context.Context) error{"WriteAt": writes, "Append": appends} {
		t.Run(name, func(t *testing.T) {
			h := newHeld(t)
			before, after := h.lower.Pause(faultfs.Open, faultfs.Before, 1), h.lower.Pause(faultfs.Open, faultfs.After, 1)
			done := make(chan error, 1)
			go func() { done <- do(h, t.Context()) }()
			<-before.Reached()
			h.put("big", "T"+long[1:])
			before.Resume()
			<-after.Reached()
			h.put("big", long)
			after.Resume()
			h.must(<-done)
			_, err := h.o.Apply(t.Context(), overlay.ApplyOptions{Journal: memoryUpper(t)})
			h.must(err)
			if got := text(t, h.below, "big"); !strings.HasPrefix(got, long[:3]) {
				t.Errorf("it is %.20q..., made from a content that the file had for a moment", got)
			}
		})
	}
}

// put changes the lower file.
func (h *held) put(file, data string) {
	h.Helper()
	_, err := vfs.Put(h.Context(), h.below, file, strings.NewReader(data), vfs.If{})
	h.must(err)
}
