package cas_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"capd/backend/cas"
	"capd/vfs"
)

// hammer puts, opens, reads and releases trees for this long. With pin it pins them.
// Without, it relies on the grace period between a Put and the Open.
func hammer(ctx context.Context, s *cas.Store, name string, until time.Time) error {
	for n := 0; time.Now().Before(until); n++ {
		root, err := putNumbered(ctx, s, n%7, name)
		if err != nil {
			return fmt.Errorf("putting: %w", err)
		}
		d, err := cas.Open(ctx, s, root)
		if err != nil {
			return fmt.Errorf("opening what is pinned: %w", err)
		}
		err = s.Unpin(ctx, name) // the open tree alone keeps it
		for range 3 {
			if err == nil {
				err = readTree(ctx, d)
			}
		}
		d.Close()
		if err != nil {
			return fmt.Errorf("reading what is open: %w", err)
		}
	}
	return nil
}

func collecting(ctx context.Context, s *cas.Store, until time.Time) (removed int64, err error) {
	for time.Now().Before(until) {
		r, err := s.Collect(ctx, now)
		if err != nil && vfs.CodeOf(err) != vfs.Busy {
			return removed, fmt.Errorf("collecting: %w", err)
		}
		removed += r.Removed
	}
	return removed, nil
}

func init() {
	// hammer and collect, for this many milliseconds.
	other["hammer"] = func(args []string) error {
		ms, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		s, err := cas.OpenAmbient(args[0], cas.Options{})
		if err != nil {
			return err
		}
		until := time.Now().Add(time.Duration(ms) * time.Millisecond)
		failed := make(chan error, 3)
		for i := range 2 {
			go func() { failed <- hammer(context.Background(), s, fmt.Sprint("other", i), until) }()
		}
		go func() { _, err := collecting(context.Background(), s, until); failed <- err }()
		for range 3 {
			if e := <-failed; e != nil {
				err = e
			}
		}
		return err
	}
}

// TestCollectBesideReadersAndWriters runs two processes that put, open, read and collect
// in one store. Nothing that one of them relies on may be removed.
func TestCollectBesideReadersAndWriters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := reopen(t, dir)
	kept, err := putNumbered(t.Context(), s, 3, "kept")
	if err != nil {
		t.Fatal(err)
	}
	ms := 2000
	if testing.Short() {
		ms = 300
	}
	until := time.Now().Add(time.Duration(ms) * time.Millisecond)
	cmd := run(t, "hammer", dir, strconv.Itoa(ms))
	var all sync.WaitGroup
	for i := range 2 {
		all.Go(func() {
			if err := hammer(t.Context(), s, fmt.Sprint("mine", i), until); err != nil {
				t.Error(err)
			}
		})
	}
	removed, err := collecting(t.Context(), s, until)
	if err != nil {
		t.Error(err)
	}
	all.Wait()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the other process: %v", err)
	}
	whole(t, s, kept)
	time.Sleep(20 * time.Millisecond)
	removed += collect(t, s, now).Removed
	if removed == 0 {
		t.Error("nothing was ever removed")
	}
	sound(t, dir)
}
