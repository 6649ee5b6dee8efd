package membrane_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// endless is a reader without an end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestStagingStopsEarly(t *testing.T) {
	d, l, _, raw := check.Metered(t, meter.Limits{meter.StoredBytes: 1000})
	before := check.Picture(t, raw)
	for name, replace := range map[string]func(io.Reader) error{
		"dir": func(r io.Reader) error { _, err := d.Replace(t.Context(), "f", r, vfs.If{}); return err },
		"new": func(r io.Reader) error { _, err := d.Replace(t.Context(), "new", r, vfs.If{}); return err },
		"file": func(r io.Reader) error {
			_, err := check.FileAt(t, d, "f").Replace(t.Context(), r, vfs.If{})
			return err
		},
	} {
		e := &endless{}
		check.Is(t, name, replace(e), vfs.Quota)
		if e.read > 1<<20 {
			t.Errorf("%s: %d bytes were read", name, e.read)
		}
	}
	if u := check.UsageOf(l); u.Bytes != 0 || u.Nodes != 0 || check.Picture(t, raw) != before {
		t.Errorf("used %+v", u)
	}
	check.OK(t, check.Put(t.Context(), d, "f", strings.Repeat("x", 1007))) // in place of 7
}

// The sum of everything that is staged is bounded, and not only each write.
func TestStagedAtOnce(t *testing.T) {
	d, l, plan, _ := check.Metered(t, meter.Limits{meter.StoredBytes: 100})
	begin := func(name string, n int) (end func(error) error) {
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := d.Replace(t.Context(), name, r, vfs.If{})
			r.CloseWithError(err)
			done <- err
		}()
		w.Write(make([]byte, n))
		w.Write(nil) // until it was read
		return func(err error) error {
			w.CloseWithError(err)
			return <-done
		}
	}
	for range 3 {
		first := begin("first", 80)
		check.Is(t, "as much beside it", begin("second", 80)(nil), vfs.Busy)
		check.OK(t, begin("third", 20)(nil))
		check.OK(t, first(nil))
		check.OK(t, d.Remove(t.Context(), "first", vfs.If{}))
		dropped := begin("first", 80)
		check.Is(t, "dropped", dropped(vfs.Denied), vfs.Denied)
		check.OK(t, d.Remove(t.Context(), "third", vfs.If{}))
		plan.Fail(faultfs.Replace, faultfs.Commit, 1, vfs.Errorf(vfs.Limit, "the disk is full"))
		check.Is(t, "failing", check.Put(t.Context(), d, "first", strings.Repeat("x", 100)), vfs.Limit)
		check.OK(t, check.Put(t.Context(), d, "first", strings.Repeat("x", 100)))
		beside := begin("second", 0)
		check.OK(t, check.Put(t.Context(), d, "first", strings.Repeat("x", 100))) // in place of as many
		check.OK(t, beside(nil))
		check.OK(t, d.Remove(t.Context(), "first", vfs.If{}))
		check.OK(t, d.Remove(t.Context(), "second", vfs.If{}))
	}
	if u := check.UsageOf(l); u.Bytes != 0 {
		t.Errorf("used %+v", u)
	}
}

// Staged content counts and is bounded, even if nothing bounds stored content.
func TestStagedAlone(t *testing.T) {
	for name, l := range map[string]meter.Limits{"bounded": {meter.StagedBytes: 100}, "unbounded": nil} {
		t.Run(name, func(t *testing.T) {
			d, m, _, _ := check.Metered(t, l)
			r, w := io.Pipe()
			done := make(chan error, 1)
			go func() {
				_, err := d.Replace(t.Context(), "first", r, vfs.If{})
				done <- err
			}()
			w.Write(make([]byte, 80))
			w.Write(nil) // until it was read
			if used := m.Used(meter.StagedBytes); used != 80 {
				t.Errorf("%d bytes are staged, want 80", used)
			}
			want := vfs.Code("")
			if l != nil {
				want = vfs.Busy
			}
			check.Is(t, "beside it", check.Put(t.Context(), d, "second", strings.Repeat("x", 21)), want)
			w.Close()
			check.OK(t, <-done)
			check.Is(t, "in place of what is there", check.Put(t.Context(), d, "first", strings.Repeat("x", 180)), "")
			if l != nil {
				want = vfs.Quota // which no other write that ends would help
			}
			check.Is(t, "more", check.Put(t.Context(), d, "third", strings.Repeat("x", 101)), want)
			if used := m.Used(meter.StagedBytes); used != 0 {
				t.Errorf("%d bytes are staged in the end", used)
			}
		})
	}
}

// greedy says that it read more than the buffer holds.
type greedy struct{}

func (greedy) Read(p []byte) (int, error) { return len(p) + 1, nil }

func TestReaderThatLies(t *testing.T) {
	for _, buffer := range []int{1, 4 << 10, 1 << 20} {
		l := check.NewMeter(meter.Limits{meter.StoredBytes: 1 << 30})
		_, raw := check.Store(t, check.Sample)
		d := membrane.Guarded(reading{raw, buffer}, nil, membrane.Guard{Meter: l})
		_, err := d.Replace(t.Context(), "f", greedy{}, vfs.If{})
		check.Is(t, fmt.Sprint("replace by ", buffer, " bytes"), err, vfs.Invalid)
		if u := check.UsageOf(l); u.Bytes != 0 || u.Streams != 0 {
			t.Errorf("used %+v", u)
		}
	}
}

// reading is a store that reads this many bytes at once, and stores none.
type reading struct {
	vfs.Dir
	buffer int
}

func (d reading) Replace(_ context.Context, _ string, r io.Reader, _ vfs.If) (vfs.Version, error) {
	n, err := r.Read(make([]byte, d.buffer))
	if err == nil {
		err = fmt.Errorf("it has read %d", n)
	}
	return vfs.Version{}, err
}

// If one of several ledgers refuses, nothing is staged in any of them.
func TestStagedInEveryMeter(t *testing.T) {
	large, small := check.NewMeter(meter.Limits{meter.StoredBytes: 90}), check.NewMeter(meter.Limits{meter.StoredBytes: 60})
	_, raw := check.Store(t, nil)
	d := membrane.Guarded(raw, nil, membrane.Guard{Meter: large}, membrane.Guard{Meter: small})
	for range 3 {
		r, w := io.Pipe()
		first := make(chan error, 1)
		go func() {
			_, err := d.Replace(t.Context(), "first", r, vfs.If{})
			r.CloseWithError(err)
			first <- err
		}()
		w.Write(make([]byte, 40))
		w.Write(nil) // until it was read
		check.Is(t, "beside it", check.Put(t.Context(), d, "second", strings.Repeat("x", 40)), vfs.Busy)
		w.Close()
		check.OK(t, <-first)
		check.OK(t, d.Remove(t.Context(), "first", vfs.If{}))
	}
	check.OK(t, check.Put(t.Context(), d, "second", strings.Repeat("x", 60)))
}

// steps are the results of a reader's Reads, one after another.
type steps struct{ do []func(p []byte) (int, error) }

func (s *steps) Read(p []byte) (int, error) {
	f := s.do[0]
	s.do = s.do[1:]
	return f(p)
}

// The end of the content takes no room: it is never busy.
func TestNothingStagedIsNeverBusy(t *testing.T) {
	ctx := t.Context()
	_, raw := check.Store(t, check.Sample)
	check.OK(t, check.Put(ctx, raw, "big", strings.Repeat("x", 4000)))
	d := membrane.Guarded(raw, nil, membrane.Guard{Meter: check.NewMeter(meter.Limits{meter.StoredBytes: 1000})})
	defer d.Close()
	smallRead, bigRead, bigGo := make(chan bool), make(chan bool), make(chan bool)
	res := make(chan error, 2)
	go func() {
		_, err := d.Replace(ctx, "small", &steps{[]func(p []byte) (int, error){
			func(p []byte) (int, error) { return copy(p, "hi"), nil },
			func(p []byte) (int, error) { close(smallRead); <-bigRead; return 0, io.EOF },
		}}, vfs.If{})
		res <- err
	}()
	go func() {
		n := 0
		r := &steps{}
		<-smallRead
		for i := 0; i < 4000/100; i++ {
			r.do = append(r.do, func(p []byte) (int, error) { n++; return copy(p, strings.Repeat("y", 100)), nil })
		}
		r.do = append(r.do, func(p []byte) (int, error) { close(bigRead); <-bigGo; return 0, io.EOF })
		_, err := d.Replace(ctx, "big", r, vfs.If{})
		res <- err
	}()
	err := <-res
	close(bigGo)
	err2 := <-res
	check.OK(t, err)
	check.OK(t, err2)
}
