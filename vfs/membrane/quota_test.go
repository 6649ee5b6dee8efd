package membrane_test

import (
	"math"
	"strings"
	"testing"

	"capd/backend/memory"
	"capd/meter"
	"capd/vfs"
	"capd/vfs/faultfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

func TestQuota(t *testing.T) {
	d, l, plan, _ := check.Metered(t, meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 3})
	ctx := t.Context()
	f := check.FileAt(t, d, "f") // 7 bytes, from before
	bytes, nodes := int64(0), int64(0)
	step := func(what string, err error, want vfs.Code, grows, made int64) {
		t.Helper()
		check.Is(t, what, err, want)
		bytes, nodes = max(bytes+grows, 0), max(nodes+made, 0)
		if u := check.UsageOf(l); u.Bytes != bytes || u.Nodes != nodes {
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
	step("put", check.Put(ctx, d, "one", strings.Repeat("x", 60)), "", 60, 1)
	step("put less", check.Put(ctx, d, "one", strings.Repeat("x", 50)), "", -10, 0)
	step("put in place of it", check.Put(ctx, d, "one", strings.Repeat("x", 100)), "", 50, 0)
	step("one byte more", add("x"), vfs.Quota, 0, 0)
	step("one byte more", write("x", 0), vfs.Quota, 0, 0)
	step("truncate", f.Truncate(ctx, 1, vfs.If{}), vfs.Quota, 0, 0)
	step("truncate far", f.Truncate(ctx, math.MaxInt64, vfs.If{}), vfs.Quota, 0, 0)
	step("truncate nearly as far", f.Truncate(ctx, math.MaxInt64-50, vfs.If{}), vfs.Quota, 0, 0)
	step("put elsewhere", check.Put(ctx, d, "two", "x"), vfs.Quota, 0, 0)
	step("an empty file", check.Put(ctx, d, "two", ""), "", 0, 1)
	made, err := d.Mkdir(ctx, "three")
	step("mkdir", err, "", 0, 1)
	_, err = d.Mkdir(ctx, "four")
	step("mkdir", err, vfs.Quota, 0, 0)
	_, err = d.Create(ctx, "four")
	step("create", err, vfs.Quota, 0, 0)
	step("rename", d.Rename(ctx, "two", made, "2", vfs.If{}, vfs.If{}), "", 0, 0)
	version, err := vfs.VersionOf(ctx, check.FileAt(t, d, "one"))
	check.OK(t, err)
	step("rename over", made.Rename(ctx, "2", d, "one", vfs.If{}, vfs.If{Is: version}), "", -100, -1)
	step("remove", d.Remove(ctx, "three", vfs.If{}), "", 0, -1)
	step("remove", d.Remove(ctx, "one", vfs.If{}), "", 0, -1)
	step("remove what was there before", d.Remove(ctx, "z", vfs.If{}), "", 0, -1)
	for _, op := range []faultfs.Op{faultfs.Replace, faultfs.Mkdir, faultfs.Append} {
		plan.Fail(op, faultfs.Commit, 1, vfs.Errorf(vfs.Limit, "the disk is full"))
	}
	step("failing put", check.Put(ctx, d, "one", strings.Repeat("x", 60)), vfs.Limit, 0, 0)
	_, err = d.Mkdir(ctx, "three")
	step("failing mkdir", err, vfs.Limit, 0, 0)
	step("failing append", add("x"), vfs.Limit, 0, 0)
	step("put it all", check.Put(ctx, d, "one", strings.Repeat("x", 100)), "", 100, 1)
}

// TestOverflow: no size is too large to be refused.
func TestOverflow(t *testing.T) {
	l := check.NewMeter(meter.Limits{meter.StoredBytes: 100})
	raw := memory.New(memory.Limits{Bytes: math.MaxInt64}).Root()
	d := membrane.Guarded(raw, nil, membrane.Guard{Meter: l})
	check.OK(t, check.Put(t.Context(), d, "f", strings.Repeat("x", 100)))
	check.OK(t, raw.Remove(t.Context(), "f", vfs.If{})) // by the host: the store has room
	check.OK(t, check.Put(t.Context(), d, "g", ""))
	g := check.FileAt(t, d, "g")
	for _, size := range []int64{1, math.MaxInt64 - 50, math.MaxInt64} {
		check.Is(t, "truncate", g.Truncate(t.Context(), size, vfs.If{}), vfs.Quota)
		_, err := g.WriteAt(t.Context(), []byte("x"), size-1, vfs.If{})
		check.Is(t, "write", err, vfs.Quota)
	}
	if u := check.UsageOf(l); u.Bytes != 100 {
		t.Errorf("%+v", u)
	}
}

// TestFreedWhileReserved: what is freed while a change is in progress gives no more
// credit than at other times.
func TestFreedWhileReserved(t *testing.T) {
	d, l, plan, _ := check.Metered(t, meter.Limits{meter.StoredBytes: 100})
	pause := plan.Pause(faultfs.Replace, faultfs.Commit, 1)
	done := make(chan error, 1)
	go func() { done <- check.Put(t.Context(), d, "new", strings.Repeat("x", 60)) }()
	<-pause.Reached()
	if u := check.UsageOf(l); u.Bytes != 60 {
		t.Errorf("reserved %+v", u)
	}
	check.Is(t, "more than is left", check.Put(t.Context(), d, "more", strings.Repeat("x", 41)), vfs.Quota)
	check.OK(t, d.Remove(t.Context(), "f", vfs.If{}))
	pause.Resume()
	check.OK(t, <-done)
	if u := check.UsageOf(l); u.Bytes != 60 {
		t.Errorf("used %+v", u)
	}
}

// Two writers at once share what is left: what the first has reserved counts before its
// change has ended.
func TestReservedTogether(t *testing.T) {
	for name, c := range map[string]struct {
		op     faultfs.Op
		change func(d vfs.Dir, name string) error
	}{
		"bytes": {faultfs.Append, func(d vfs.Dir, name string) error {
			_, err := vfs.Append(t.Context(), check.FileAt(t, d, name), make([]byte, 60), vfs.If{})
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
			d, l, plan, raw := check.Metered(t, meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 1})
			check.OK(t, check.Put(t.Context(), raw, "one", "")) // which nobody pays for
			check.OK(t, check.Put(t.Context(), raw, "two", ""))
			pause := plan.Pause(c.op, faultfs.Commit, 1)
			done := make(chan error, 1)
			go func() { done <- c.change(d, "one") }()
			<-pause.Reached()
			check.Is(t, "beside another", c.change(d, "two"), vfs.Quota)
			pause.Resume()
			check.OK(t, <-done)
			if u := check.UsageOf(l); u.Bytes+u.Nodes*60 != 60 {
				t.Errorf("used %+v", u)
			}
			check.Is(t, "after it", c.change(d, "two"), vfs.Quota)
		})
	}
}
