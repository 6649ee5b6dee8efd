package memory_test

import (
	"context"
	"io"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
)

// as returns the context of a call of m.
func as(t *testing.T, m *meter.Meter) context.Context {
	ctx, turn, err := m.Begin(t.Context(), meter.Work)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(turn.End)
	return ctx
}

// uncommitted stages n bytes at name and waits for more until the test ends. If it is
// refused, it returns the error.
func uncommitted(t *testing.T, ctx context.Context, d vfs.Dir, name string, n int64) error {
	staged, rest := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	r := io.MultiReader(io.LimitReader(zeros{}, n), readerFunc(func([]byte) (int, error) {
		close(staged)
		<-rest
		return 0, io.ErrUnexpectedEOF
	}))
	go func() {
		_, err := d.Replace(ctx, name, r, vfs.If{})
		done <- err
	}()
	select {
	case <-staged:
		t.Cleanup(func() { close(rest); <-done })
		return nil
	case err := <-done:
		return err
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestFairStaging: what a grant has staged does not keep another from writing, and what
// its share has staged does not keep the grant itself from it.
func TestFairStaging(t *testing.T) {
	const limit = 64 * 64 * kib
	h := meter.NewHost(nil)
	a, b := h.Grant("a", nil), h.Grant("b", nil)
	share := a.Part("share")
	for name, c := range map[string]struct {
		hoards, honest *meter.Meter
		least          int64
	}{
		"another grant": {a, b, limit / 2},
		"the giver":     {share, a, limit / 4},
		"a share":       {a, share, 0}, // what the giver has left it
		"the host":      {a, nil, limit / 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := memory.New(memory.Limits{Bytes: limit})
			d := s.Root()
			ctx := as(t, c.hoards)
			var staged int64
			for _, n := range []int64{limit / 2, limit / 2, limit / 4, limit / 8, limit / 16, limit / 32, limit / 64} {
				if err := uncommitted(t, ctx, d, "f", n); err == nil {
					staged += n
				} else {
					is(t, "too much", err, vfs.Busy)
				}
			}
			t.Logf("%d of %d staged by one", staged, limit)
			if staged > limit || c.hoards == share && staged > limit/2 {
				t.Error("that is too much")
			}
			honest := t.Context()
			if c.honest != nil {
				honest = as(t, c.honest)
			}
			_, err := d.Replace(honest, "g", io.LimitReader(zeros{}, c.least), vfs.If{})
			is(t, "a put beside", err, "")
		})
	}
}

// TestFairStagingAlone: a grant that is alone may replace the largest file by one of the
// same size.
func TestFairStagingAlone(t *testing.T) {
	const limit = 1000 * kib
	d := memory.New(memory.Limits{Bytes: limit}).Root()
	ctx := as(t, meter.NewHost(nil).Grant("a", nil))
	for range 2 {
		_, err := d.Replace(ctx, "f", io.LimitReader(zeros{}, limit), vfs.If{})
		is(t, "to the limit", err, "")
	}
}

// TestFairHolding: the old contents that one grant holds open do not keep another from
// writing.
func TestFairHolding(t *testing.T) {
	const limit = 1000 * kib
	h := meter.NewHost(nil)
	d := memory.New(memory.Limits{Bytes: limit}).Root()
	hoards, honest := as(t, h.Grant("a", nil)), as(t, h.Grant("b", nil))
	put := func(ctx context.Context) error {
		_, err := d.Replace(ctx, "f", io.LimitReader(zeros{}, 400*kib), vfs.If{})
		return err
	}
	is(t, "a put", put(hoards), "")
	var held []vfs.Content
	for i := 0; ; i++ {
		n, err := d.Lookup(hoards, "f")
		if err != nil {
			t.Fatal(err)
		}
		c, err := vfs.Open(hoards, n.(vfs.File))
		if err != nil {
			is(t, "one content too many", err, vfs.Busy)
			break
		}
		held = append(held, c)
		is(t, "an honest put beside", put(honest), "")
		if i > 5 {
			t.Fatal("old contents are held without bounds")
		}
	}
	is(t, "a put of who holds too much", put(hoards), vfs.Busy)
	is(t, "an honest put beside", put(honest), "")
	for _, c := range held {
		c.Close()
	}
	is(t, "a put when all is closed", put(hoards), "")
}
