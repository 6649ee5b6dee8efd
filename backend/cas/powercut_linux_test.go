package cas_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"capd/backend/cas"
	"capd/backend/memory"
	"capd/tests/powercut"
)

func init() { other["durable"] = makeDurable }

// steps change a store, one after another, and say which tree is pinned under which name
// then: 0 is the empty tree. The third step puts the tree 2 without a pin.
var steps = []struct {
	do   func(ctx context.Context, s *cas.Store) error
	pins map[string]int
}{
	{pinEmpty, map[string]int{"empty": 0}},
	{putPinned(1, "one"), map[string]int{"empty": 0, "one": 1}},
	{putPinned(2, ""), map[string]int{"empty": 0, "one": 1}},
	{putPinned(2, "one"), map[string]int{"empty": 0, "one": 2}},
	{func(ctx context.Context, s *cas.Store) error { return s.Unpin(ctx, "empty") }, map[string]int{"one": 2}},
	{func(ctx context.Context, s *cas.Store) error {
		_, err := s.Collect(ctx, now)
		return err
	}, map[string]int{"one": 2}},
	{putPinned(3, "two"), map[string]int{"one": 2, "two": 3}},
}

func pinEmpty(ctx context.Context, s *cas.Store) error {
	_, err := cas.Put(ctx, s, memory.New(memory.Limits{}).Root(), cas.PutOptions{Pin: "empty"})
	return err
}

func putPinned(n int, pin string) func(ctx context.Context, s *cas.Store) error {
	return func(ctx context.Context, s *cas.Store) error {
		_, err := putNumbered(ctx, s, n, pin)
		return err
	}
}

func makeDurable(args []string) error {
	s, err := cas.OpenAmbient(args[0], cas.Options{})
	for i, step := range steps {
		if err == nil {
			err = step.do(context.Background(), s)
		}
		if err != nil {
			return err
		}
		fmt.Println(i)
	}
	return nil
}

// TestPowerCut: after a power cut at any moment, what was pinned is pinned and whole,
// what was put is there, and every file with a blob's name is that blob.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	elsewhere, _ := openStore(t)
	roots := map[int]cas.Digest{0: cas.Empty}
	for n := 1; n <= 3; n++ {
		var err error
		if roots[n], err = putNumbered(t.Context(), elsewhere, n, ""); err != nil {
			t.Fatal(err)
		}
	}
	pinned := func(answered int) []cas.Pin {
		var all []cas.Pin
		if answered > 0 {
			for name, n := range steps[answered-1].pins {
				all = append(all, cas.Pin{Name: name, Root: roots[n]})
			}
		}
		slices.SortFunc(all, func(a, b cas.Pin) int { return strings.Compare(a.Name, b.Name) })
		return all
	}
	dir := t.TempDir()
	powercut.Run(t, dir, program("durable", filepath.Join(dir, "new", "store"))).Each(t, func(dir string, said []string) error {
		dir = filepath.Join(dir, "new", "store")
		s, err := cas.OpenAmbient(dir, cas.Options{})
		if err != nil {
			return err
		}
		pins, err := s.Pins(t.Context())
		if err != nil {
			return err
		}
		undated(pins)
		before, after := pinned(len(said)), pinned(min(len(said)+1, len(steps)))
		if !slices.Equal(pins, before) && !slices.Equal(pins, after) {
			return fmt.Errorf("there are the pins %v, want %v or %v", pins, before, after)
		}
		if len(said) >= 3 {
			pins = append(pins, cas.Pin{Name: "none", Root: roots[2]})
		}
		for _, p := range pins {
			if err := complete(t.Context(), s, p.Root); err != nil {
				return fmt.Errorf("the tree pinned as %s: %w", p.Name, err)
			}
		}
		return truthful(dir)
	})
}

func complete(ctx context.Context, s *cas.Store, root cas.Digest) error {
	d, err := cas.Open(ctx, s, root)
	if err != nil {
		return err
	}
	defer d.Close()
	return readTree(ctx, d)
}
