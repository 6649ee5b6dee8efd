package authority_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/authority"
	"capd/backend/memory"
	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest"
	"capd/vfs/vfstest/check"
)

// spansOf returns what was recorded of writes in place, when n spans have ended.
func (r *recorded) spansOf(t *testing.T, n int) (all []record.Span) {
	t.Helper()
	check.Eventually(t, "the spans have ended", func() bool {
		all = nil
		for e, err := range record.Entries(t.Context(), r.db, record.Query{Kinds: []record.Kind{record.Ended}}) {
			if ok(t, err); e.Span != nil {
				all = append(all, *e.Span)
			}
		}
		return len(all) >= n
	})
	return all
}

// Many writes in place of one file have one intent.
func TestSpans(t *testing.T) {
	_, d := check.Store(t, vfstest.Tree{"f": {Data: "old"}, "g": {Data: "other"}})
	r := newRecorded(t, d)
	_, secret := grant(t, r.Host, "agent", "", false)
	guest := r.restored(t, secret)
	f, g := check.FileAt(t, guest, "f"), check.FileAt(t, guest, "g")
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 10 {
				_, err := f.WriteAt(t.Context(), []byte("ab"), int64(100+20*w+2*i), vfs.If{})
				ok(t, err)
			}
		})
	}
	all.Wait()
	_, err := vfs.Append(t.Context(), f, []byte("xyz"), vfs.If{})
	ok(t, err)
	ok(t, f.Truncate(t.Context(), 10, vfs.If{}))
	_, err = g.WriteAt(t.Context(), []byte("1"), 7, vfs.If{})
	ok(t, err)
	_, err = f.WriteAt(t.Context(), []byte("1"), 0, vfs.If{Is: vfs.Version{1}})
	is(t, "a write on a condition", err, vfs.Conflict)
	ok(t, check.Put(t.Context(), guest, "f", "whole")) // ends the span of f, and not that of g
	if got, want := r.spansOf(t, 1), []record.Span{{Writes: 42, From: 100, To: 180}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	_, err = f.WriteAt(t.Context(), []byte("2"), 1, vfs.If{})
	ok(t, err)
	ok(t, r.Host.Close()) // ends the others
	got := r.spansOf(t, 3)[1:]
	slices.SortFunc(got, func(a, b record.Span) int { return int(a.From - b.From) })
	if want := []record.Span{{Writes: 1, From: 1, To: 2}, {Writes: 1, From: 7, To: 8}}; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	intents := 0
	for _, err := range record.Entries(t.Context(), r.db, record.Query{Kinds: []record.Kind{record.Intended}}) {
		ok(t, err)
		intents++
	}
	if intents != 4 {
		t.Errorf("%d intents, want 4", intents)
	}
}

// A span ends when it is quiet, and the next write has an intent of its own.
func TestSpanIsQuiet(t *testing.T) {
	_, d := check.Store(t, vfstest.Tree{"f": {Data: "old"}})
	r := newRecorded(t, d)
	authority.Quieten(r.Host, time.Millisecond)
	_, secret := grant(t, r.Host, "agent", "", false)
	f := check.FileAt(t, r.restored(t, secret), "f")
	for n := 1; n <= 3; n++ {
		_, err := f.WriteAt(t.Context(), []byte("ab"), 1, vfs.If{})
		ok(t, err)
		if got := r.spansOf(t, n); got[n-1] != (record.Span{Writes: 1, From: 1, To: 3}) {
			t.Errorf("%+v", got)
		}
	}
}

// Who writes to many files has few spans that go on.
func TestSpansAreFew(t *testing.T) {
	r := newRecorded(t, memory.New(memory.Limits{}).Root())
	_, secret := grant(t, r.Host, "agent", "", false)
	d := r.restored(t, secret)
	for i := range 100 {
		f, err := d.Create(t.Context(), strconv.Itoa(i))
		ok(t, err)
		_, err = f.WriteAt(t.Context(), []byte("ab"), 0, vfs.If{})
		ok(t, err)
		ok(t, f.Close())
	}
	if got := len(r.spansOf(t, 36)); got < 36 {
		t.Errorf("%d spans have ended", got)
	}
}

// A span ends when the file is synced or closed, and its outcome has the version of the file.
func TestSpansEndAtSyncAndClose(t *testing.T) {
	_, d := check.Store(t, vfstest.Tree{"f": {Data: "old"}})
	r := newRecorded(t, d)
	authority.Quieten(r.Host, time.Hour)
	_, secret := grant(t, r.Host, "agent", "", false)
	f := check.FileAt(t, r.restored(t, secret), "f")
	ok(t, f.Sync(t.Context())) // nothing was written
	for i, end := range []func() error{func() error { return f.Sync(t.Context()) }, f.Close} {
		text := strings.Repeat("x", i+1)
		_, err := f.WriteAt(t.Context(), []byte(text), 0, vfs.If{})
		ok(t, err)
		ok(t, end())
		r.spansOf(t, i+1)
		var last record.Numbered
		for e, err := range record.Entries(t.Context(), r.db, record.Query{Kinds: []record.Kind{record.Ended}}) {
			ok(t, err)
			last = e
		}
		sum := sha256.Sum256([]byte(text + "old"[i+1:]))
		if last.Version != hex.EncodeToString(sum[:]) || last.Size != 3 || *last.Span != (record.Span{Writes: 1, To: int64(i + 1)}) {
			t.Errorf("span %d: %+v", i, last)
		}
	}
}
