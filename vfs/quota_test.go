package vfs_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
)

func metered(t testing.TB, a meter.Limits) (vfs.Dir, *meter.Meter, *faultfs.Plan, vfs.Dir) {
	t.Helper()
	l := newMeter(a)
	_, raw := store(t, sample)
	plan := &faultfs.Plan{}
	return vfs.Guarded(faultfs.New(raw, plan), nil, vfs.Guard{Meter: l}), l, plan, raw
}

func TestLedger(t *testing.T) {
	d, l, plan, _ := metered(t, meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 3})
	ctx := t.Context()
	f := fileAt(t, d, "f") // 7 bytes, from before
	bytes, nodes := int64(0), int64(0)
	step := func(what string, err error, want vfs.Code, grows, made int64) {
		t.Helper()
		is(t, what, err, want)
		bytes, nodes = max(bytes+grows, 0), max(nodes+made, 0)
		if u := usageOf(l); u.Bytes != bytes || u.Nodes != nodes {
			t.Errorf("%s: %+v, want %d bytes, %d nodes", what, u, bytes, nodes)
		}
	}
	write := func(p string, off int64) error {
		_, err := f.WriteAt(ctx, []byte(p), off, vfs.If{})
		return err
	}
	add := func(p string) error {
		_, err := vfs.Append(ctx, f, []byte(p), vfs.If{})
		return err
	}
	step("rewrite", write("newnews", 0), "", 0, 0)
	step("write over the end", write("xxxx", 5), "", 2, 0)
	step("append", add("xxx"), "", 3, 0)
	step("truncate up", f.Truncate(ctx, 20, vfs.If{}), "", 8, 0)
	step("a gap", write("x", 39), "", 20, 0)
	step("truncate down", f.Truncate(ctx, 10, vfs.If{}), "", -30, 0)
	step("free what was there before", f.Truncate(ctx, 0, vfs.If{}), "", -10, 0)
	step("put", put(ctx, d, "one", strings.Repeat("x", 60)), "", 60, 1)
	step("put less", put(ctx, d, "one", strings.Repeat("x", 50)), "", -10, 0)
	step("put in place of it", put(ctx, d, "one", strings.Repeat("x", 100)), "", 50, 0)
	step("one byte more", add("x"), vfs.Quota, 0, 0)
	step("one byte more", write("x", 0), vfs.Quota, 0, 0)
	step("truncate", f.Truncate(ctx, 1, vfs.If{}), vfs.Quota, 0, 0)
	step("truncate far", f.Truncate(ctx, math.MaxInt64, vfs.If{}), vfs.Quota, 0, 0)
	step("truncate nearly as far", f.Truncate(ctx, math.MaxInt64-50, vfs.If{}), vfs.Quota, 0, 0)
	step("put elsewhere", put(ctx, d, "two", "x"), vfs.Quota, 0, 0)
	step("an empty file", put(ctx, d, "two", ""), "", 0, 1)
	made, err := d.Mkdir(ctx, "three")
	step("mkdir", err, "", 0, 1)
	_, err = d.Mkdir(ctx, "four")
	step("mkdir", err, vfs.Quota, 0, 0)
	_, err = d.Create(ctx, "four")
	step("create", err, vfs.Quota, 0, 0)
	step("rename", d.Rename(ctx, "two", made, "2", vfs.If{}, vfs.If{}), "", 0, 0)
	version, err := vfs.VersionOf(ctx, fileAt(t, d, "one"))
	ok(t, err)
	step("rename over", made.Rename(ctx, "2", d, "one", vfs.If{}, vfs.If{Is: version}), "", -100, -1)
	step("remove", d.Remove(ctx, "three", vfs.If{}), "", 0, -1)
	step("remove", d.Remove(ctx, "one", vfs.If{}), "", 0, -1)
	step("remove what was there before", d.Remove(ctx, "z", vfs.If{}), "", 0, -1)
	for _, op := range []faultfs.Op{faultfs.Replace, faultfs.Mkdir, faultfs.Append} {
		plan.Fail(op, faultfs.Commit, 1, vfs.Errorf(vfs.Limit, "the disk is full"))
	}
	step("failing put", put(ctx, d, "one", strings.Repeat("x", 60)), vfs.Limit, 0, 0)
	_, err = d.Mkdir(ctx, "three")
	step("failing mkdir", err, vfs.Limit, 0, 0)
	step("failing append", add("x"), vfs.Limit, 0, 0)
	step("put it all", put(ctx, d, "one", strings.Repeat("x", 100)), "", 100, 1)
}

// TestOverflow: there is no size that is too large to be refused.
func TestOverflow(t *testing.T) {
	l := newMeter(meter.Limits{meter.StoredBytes: 100})
	raw := memory.New(memory.Limits{Bytes: math.MaxInt64}).Root()
	d := vfs.Guarded(raw, nil, vfs.Guard{Meter: l})
	ok(t, put(t.Context(), d, "f", strings.Repeat("x", 100)))
	ok(t, raw.Remove(t.Context(), "f", vfs.If{})) // by the host: the store has room
	ok(t, put(t.Context(), d, "g", ""))
	g := fileAt(t, d, "g")
	for _, size := range []int64{1, math.MaxInt64 - 50, math.MaxInt64} {
		is(t, "truncate", g.Truncate(t.Context(), size, vfs.If{}), vfs.Quota)
		_, err := g.WriteAt(t.Context(), []byte("x"), size-1, vfs.If{})
		is(t, "write", err, vfs.Quota)
	}
	if u := usageOf(l); u.Bytes != 100 {
		t.Errorf("%+v", u)
	}
}

// endless is a reader without an end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestStagingStopsEarly(t *testing.T) {
	d, l, _, raw := metered(t, meter.Limits{meter.StoredBytes: 1000})
	before := picture(t, raw)
	for name, replace := range map[string]func(io.Reader) error{
		"dir": func(r io.Reader) error { _, err := d.Replace(t.Context(), "f", r, vfs.If{}); return err },
		"new": func(r io.Reader) error { _, err := d.Replace(t.Context(), "new", r, vfs.If{}); return err },
		"file": func(r io.Reader) error {
			_, err := vfs.ReplaceFile(t.Context(), fileAt(t, d, "f"), r, vfs.If{})
			return err
		},
	} {
		e := &endless{}
		is(t, name, replace(e), vfs.Quota)
		if e.read > 1<<20 {
			t.Errorf("%s: %d bytes were read", name, e.read)
		}
	}
	if u := usageOf(l); u.Bytes != 0 || u.Nodes != 0 || picture(t, raw) != before {
		t.Errorf("used %+v", u)
	}
	ok(t, put(t.Context(), d, "f", strings.Repeat("x", 1007))) // in place of 7
}

// All that is staged at once is bounded, and not only what each write stages.
func TestStagedAtOnce(t *testing.T) {
	d, l, plan, _ := metered(t, meter.Limits{meter.StoredBytes: 100})
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
		is(t, "as much beside it", begin("second", 80)(nil), vfs.Busy)
		ok(t, begin("third", 20)(nil))
		ok(t, first(nil))
		ok(t, d.Remove(t.Context(), "first", vfs.If{}))
		dropped := begin("first", 80)
		is(t, "dropped", dropped(vfs.Denied), vfs.Denied)
		ok(t, d.Remove(t.Context(), "third", vfs.If{}))
		plan.Fail(faultfs.Replace, faultfs.Commit, 1, vfs.Errorf(vfs.Limit, "the disk is full"))
		is(t, "failing", put(t.Context(), d, "first", strings.Repeat("x", 100)), vfs.Limit)
		ok(t, put(t.Context(), d, "first", strings.Repeat("x", 100)))
		beside := begin("second", 0)
		ok(t, put(t.Context(), d, "first", strings.Repeat("x", 100))) // in place of as many
		ok(t, beside(nil))
		ok(t, d.Remove(t.Context(), "first", vfs.If{}))
		ok(t, d.Remove(t.Context(), "second", vfs.If{}))
	}
	if u := usageOf(l); u.Bytes != 0 {
		t.Errorf("used %+v", u)
	}
}

// What is staged counts, and is bounded, where nothing bounds what is stored.
func TestStagedAlone(t *testing.T) {
	for name, l := range map[string]meter.Limits{"bounded": {meter.StagedBytes: 100}, "unbounded": nil} {
		t.Run(name, func(t *testing.T) {
			d, m, _, _ := metered(t, l)
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
			is(t, "beside it", put(t.Context(), d, "second", strings.Repeat("x", 21)), want)
			w.Close()
			ok(t, <-done)
			is(t, "in place of what is there", put(t.Context(), d, "first", strings.Repeat("x", 180)), "")
			if l != nil {
				want = vfs.Quota // which no other write that ends would help
			}
			is(t, "more", put(t.Context(), d, "third", strings.Repeat("x", 101)), want)
			if used := m.Used(meter.StagedBytes); used != 0 {
				t.Errorf("%d bytes are staged in the end", used)
			}
		})
	}
}

// TestFreedWhileReserved: what is freed while a change is under way earns no
// more than it does otherwise.
func TestFreedWhileReserved(t *testing.T) {
	d, l, plan, _ := metered(t, meter.Limits{meter.StoredBytes: 100})
	pause := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
	done := make(chan error, 1)
	go func() { done <- put(t.Context(), d, "new", strings.Repeat("x", 60)) }()
	<-pause.Reached()
	if u := usageOf(l); u.Bytes != 60 {
		t.Errorf("reserved %+v", u)
	}
	is(t, "more than is left", put(t.Context(), d, "more", strings.Repeat("x", 41)), vfs.Quota)
	ok(t, d.Remove(t.Context(), "f", vfs.If{}))
	pause.Resume()
	ok(t, <-done)
	if u := usageOf(l); u.Bytes != 60 {
		t.Errorf("used %+v", u)
	}
}

// Two writers at once share what is left: what the first has reserved counts
// before its change has come to an end.
func TestReservedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		op     faultfs.Op
		change func(d vfs.Dir, name string) error
	}{
		"bytes": {faultfs.Append, func(d vfs.Dir, name string) error {
			_, err := vfs.Append(t.Context(), fileAt(t, d, name), make([]byte, 60), vfs.If{})
			return err
		}},
		"nodes": {faultfs.Mkdir, func(d vfs.Dir, name string) error {
			made, err := d.Mkdir(t.Context(), name+"2")
			if err == nil {
				made.Close()
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d, l, plan, raw := metered(t, meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 1})
			ok(t, put(t.Context(), raw, "one", "")) // which nobody pays for
			ok(t, put(t.Context(), raw, "two", ""))
			pause := plan.Pause(c.op, faultfs.Commit, 1)
			done := make(chan error, 1)
			go func() { done <- c.change(d, "one") }()
			<-pause.Reached()
			is(t, "beside another", c.change(d, "two"), vfs.Quota)
			pause.Resume()
			ok(t, <-done)
			if u := usageOf(l); u.Bytes+u.Nodes*60 != 60 {
				t.Errorf("used %+v", u)
			}
			is(t, "after it", c.change(d, "two"), vfs.Quota)
		})
	}
}

// greedy says that it read more than it had room for.
type greedy struct{}

func (greedy) Read(p []byte) (int, error) { return len(p) + 1, nil }

func TestReaderThatLies(t *testing.T) {
	for _, buffer := range []int{1, 4 << 10, 1 << 20} {
		l := newMeter(meter.Limits{meter.StoredBytes: 1 << 30})
		_, raw := store(t, sample)
		d := vfs.Guarded(reading{raw, buffer}, nil, vfs.Guard{Meter: l})
		_, err := d.Replace(t.Context(), "f", greedy{}, vfs.If{})
		is(t, fmt.Sprint("replace by ", buffer, " bytes"), err, vfs.Invalid)
		if u := usageOf(l); u.Bytes != 0 || u.Streams != 0 {
			t.Errorf("used %+v", u)
		}
	}
}

// reading is a store that reads so many bytes at once, and stores none.
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

// What one of several ledgers refuses is staged in none.
func TestStagedInEveryLedger(t *testing.T) {
	large, small := newMeter(meter.Limits{meter.StoredBytes: 90}), newMeter(meter.Limits{meter.StoredBytes: 60})
	_, raw := store(t, nil)
	d := vfs.Guarded(raw, nil, vfs.Guard{Meter: large}, vfs.Guard{Meter: small})
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
		is(t, "beside it", put(t.Context(), d, "second", strings.Repeat("x", 40)), vfs.Busy)
		w.Close()
		ok(t, <-first)
		ok(t, d.Remove(t.Context(), "first", vfs.If{}))
	}
	ok(t, put(t.Context(), d, "second", strings.Repeat("x", 60)))
}

func TestOpen(t *testing.T) {
	d, l, _, _ := metered(t, meter.Limits{meter.Nodes: 7, meter.Streams: 1})
	open := func(what string, want int64) {
		t.Helper()
		if got := usageOf(l).Open; got != want {
			t.Errorf("%s: %d open, want %d", what, got, want)
		}
	}
	open("the root", 0)
	var closers []io.Closer
	keep := func(what string, n io.Closer, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		closers = append(closers, n)
		open(what, int64(len(closers)))
	}
	a, err := d.Lookup(t.Context(), "a")
	keep("lookup", a, err)
	ro, err := vfs.ReadOnlyDir(d)
	keep("readOnly", ro, err)
	f, err := vfs.WalkFile(t.Context(), d, "a/b/f")
	keep("walk", f, err)
	c, err := vfs.Open(t.Context(), f)
	ok(t, err)
	if n := usageOf(l).Streams; n != 1 {
		t.Errorf("a content held open: %d streams", n)
	}
	_, err = vfs.Open(t.Context(), f)
	is(t, "another content", err, vfs.Limit)
	_, err = d.Replace(t.Context(), "f", strings.NewReader("x"), vfs.If{})
	is(t, "a whole-file write beside it", err, vfs.Limit)
	ok(t, c.Close())
	ok(t, c.Close())
	if n := usageOf(l).Streams; n != 0 {
		t.Errorf("a content closed: %d streams", n)
	}
	made, err := d.Create(t.Context(), "made")
	keep("create", made, err)
	dir, err := d.Mkdir(t.Context(), "dir")
	keep("mkdir", dir, err)
	r, control, err := vfs.RevocableDir(d)
	if err != nil {
		t.Fatal(err)
	}
	closers = append(closers, r)
	keep("revocable", releaser{control}, nil)

	_, err = d.Lookup(t.Context(), "f")
	is(t, "one more", err, vfs.Limit)
	_, err = d.Create(t.Context(), "another")
	is(t, "create", err, vfs.Limit)
	_, _, err = vfs.RevocableFile(made)
	is(t, "revocable", err, vfs.Limit)
	_, err = vfs.ReadOnlyDir(d)
	is(t, "readOnly", err, vfs.Limit)
	is(t, "no file was made", d.Remove(t.Context(), "another", vfs.If{}), vfs.NotFound)
	open("refused", 7)
	_, err = ro.Lookup(t.Context(), "..")
	is(t, "failing", err, vfs.Invalid)
	for i, c := range closers {
		ok(t, c.Close())
		ok(t, c.Close())
		open("closed", int64(len(closers)-1-i))
	}
}

// A node at a long path counts for more, as long as it is open.
func TestOpenLongPath(t *testing.T) {
	l, small := newMeter(meter.Limits{meter.Nodes: 1000}), newMeter(meter.Limits{meter.Nodes: 17})
	d := vfs.Guarded(memory.New(memory.Limits{}).Root(), nil, vfs.Guard{Meter: l}, vfs.Guard{Meter: small})
	top := d
	var dirs []vfs.Dir
	var costs []int64
	open := func(what string) {
		t.Helper()
		want := int64(0)
		for _, c := range costs {
			want += c
		}
		if a, b := usageOf(l).Open, usageOf(small).Open; a != want || b != want {
			t.Errorf("%s: %d and %d, want %d", what, a, b, want)
		}
	}
	for i := range 5 { // paths of 127, 255, 383 bytes and so on
		sub, err := d.Mkdir(t.Context(), strings.Repeat("n", 127))
		ok(t, err)
		d, dirs, costs = sub, append(dirs, sub), append(costs, []int64{1, 1, 2, 2, 3}[i])
		open("mkdir")
	}
	f, err := d.Create(t.Context(), strings.Repeat("f", 128)) // 768 bytes
	ok(t, err)
	costs = append(costs, 3)
	open("create")
	_, _, err = vfs.RevocableFile(f)
	is(t, "one that would be too many, though its gate were not", err, vfs.Limit)
	open("refused")
	ro, err := vfs.ReadOnlyFile(f)
	ok(t, err)
	costs = append(costs, 3)
	open("read-only")
	_, err = d.Lookup(t.Context(), strings.Repeat("f", 128))
	is(t, "with room for less than it counts for", err, vfs.Limit)
	_, err = d.Mkdir(t.Context(), strings.Repeat("m", 200))
	is(t, "one more made", err, vfs.Limit)
	short, err := vfs.ReadOnlyDir(top)
	ok(t, err)
	costs = append(costs, 1)
	open("with room for one")
	for _, n := range []vfs.Node{short, ro, f} {
		ok(t, n.Close())
		ok(t, n.Close())
		costs = costs[:len(costs)-1]
		open("closed")
	}
	r, c, err := vfs.RevocableDir(dirs[4])
	ok(t, err)
	costs = append(costs, 6)
	open("revocable")
	ok(t, r.Close())
	c.Release()
	costs = costs[:5]
	open("released")
	for i, d := range dirs {
		ok(t, d.Close())
		costs[i] = 0
	}
	open("all closed")
}

type releaser struct{ c *vfs.Control }

func (r releaser) Close() error {
	r.c.Release()
	return nil
}

// TestOpenReturnsToZero tries everything, also what fails, at once.
func TestOpenReturnsToZero(t *testing.T) {
	d, l, plan, _ := metered(t, meter.Limits{meter.Nodes: 6})
	plan.Fail(faultfs.Lookup, faultfs.After, 7, vfs.Busy)
	plan.Fail(faultfs.Open, faultfs.After, 2, vfs.Busy)
	plan.Fail(faultfs.Create, faultfs.After, 2, vfs.Busy)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				for _, path := range []string{"f", "l", "a/b/c/f", "missing", "a/f/x"} {
					f, err := vfs.WalkFile(t.Context(), d, path)
					if err != nil {
						continue
					}
					if c, err := vfs.Open(t.Context(), f); err == nil {
						c.Close()
					}
					f.Close()
				}
				if f, err := d.Create(t.Context(), "made"); err == nil {
					f.Close()
				}
				d.Remove(t.Context(), "made", vfs.If{})
			}
		})
	}
	wg.Wait()
	if u := usageOf(l); u.Open != 0 {
		t.Errorf("%+v", u)
	}
}

// steps are what a reader's Reads do, one after the other.
type steps struct{ do []func(p []byte) (int, error) }

func (s *steps) Read(p []byte) (int, error) {
	f := s.do[0]
	s.do = s.do[1:]
	return f(p)
}

// The end of what is written takes no room: it is never busy.
func TestNothingStagedIsNeverBusy(t *testing.T) {
	ctx := t.Context()
	_, raw := store(t, sample)
	ok(t, put(ctx, raw, "big", strings.Repeat("x", 4000)))
	d := vfs.Guarded(raw, nil, vfs.Guard{Meter: newMeter(meter.Limits{meter.StoredBytes: 1000})})
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
	ok(t, err)
	ok(t, err2)
}
