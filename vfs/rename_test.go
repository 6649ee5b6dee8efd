package vfs_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/meter"
	"capd/vfs"
)

// two returns two grants over one store, each with a ledger and its control.
func two(t testing.TB) (d [2]vfs.Dir, c [2]*vfs.Control, l [2]*meter.Meter, raw vfs.Dir) {
	t.Helper()
	s, raw := store(t, sample)
	for i := range 2 {
		l[i] = newMeter(meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 10})
		d[i], c[i] = controlled(t, vfs.Guarded(s.Root(), nil, vfs.Guard{Meter: l[i]}))
	}
	return d, c, l, raw
}

func TestRenameBetweenGrants(t *testing.T) {
	d, _, l, raw := two(t)
	ctx := t.Context()
	ok(t, put(ctx, d[0], "mine", strings.Repeat("x", 40)))
	used := func(what string, i int, bytes, nodes int64) {
		t.Helper()
		if u := usageOf(l[i]); u.Bytes != bytes || u.Nodes != nodes {
			t.Errorf("%s: ledger %d has %+v, want %d bytes, %d nodes", what, i, u, bytes, nodes)
		}
	}
	used("made", 0, 40, 1)
	ok(t, d[0].Rename(ctx, "mine", dirAt(t, d[1], "z"), "yours", vfs.If{}, vfs.If{}))
	used("moved", 0, 0, 0)
	used("moved", 1, 40, 1)
	if read(t, raw, "z/yours") != strings.Repeat("x", 40) {
		t.Error("not there")
	}

	// What is overwritten is credited to the one who had it, and to nobody else.
	ok(t, put(ctx, d[0], "keep", strings.Repeat("y", 60)))
	ok(t, put(ctx, d[0], "empty", ""))
	used("made", 0, 60, 2)
	version, err := vfs.VersionOf(ctx, fileAt(t, raw, "z/yours"))
	ok(t, err)
	ok(t, d[0].Rename(ctx, "empty", dirAt(t, d[1], "z"), "yours", vfs.If{}, vfs.If{Is: version}))
	used("overwritten", 0, 60, 1)
	used("overwritten", 1, 0, 1)

	// The target's allowance decides, before anything is changed.
	ok(t, put(ctx, raw, "big", strings.Repeat("z", 101)))
	is(t, "too large", d[0].Rename(ctx, "big", d[1], "big2", vfs.If{}, vfs.If{}), vfs.Quota)
	used("refused", 0, 60, 1)
	used("refused", 1, 0, 1)
	is(t, "a directory", d[0].Rename(ctx, "a", d[1], "a2", vfs.If{}, vfs.If{}), vfs.Denied)
	is(t, "a link", d[0].Rename(ctx, "l", d[1], "l2", vfs.If{}, vfs.If{}), vfs.Denied)
	is(t, "missing", d[0].Rename(ctx, "none", d[1], "n", vfs.If{}, vfs.If{}), vfs.NotFound)
	is(t, "another version", d[0].Rename(ctx, "keep", d[1], "n", vfs.If{Is: version}, vfs.If{}), vfs.Conflict)
	ro, err := vfs.ReadOnlyDir(d[1])
	ok(t, err)
	is(t, "read-only target", d[0].Rename(ctx, "keep", ro, "n", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	used("refused", 0, 60, 1)
	used("refused", 1, 0, 1)
}

// TestRenameBetweenGrantsIsSeenInPart: neither one's guard learns where in the other's
// tree it is.
func TestRenameBetweenGrantsIsSeenInPart(t *testing.T) {
	s, raw := store(t, sample)
	var seen []string
	says := func(who string) vfs.Guard {
		return around(func(ctx context.Context, op vfs.Op, do do) (vfs.Effect, error) {
			if op.Kind.Changes() {
				seen = append(seen, fmt.Sprint(who, " ", op.Kind, " ", op.Path, " ", op.To))
			}
			return do(ctx)
		})
	}
	src, tgt := vfs.Guarded(s.Root(), nil, says("source")), dirAt(t, vfs.Guarded(raw, nil, says("target")), "z")
	ok(t, src.Rename(t.Context(), "f", tgt, "g", vfs.If{}, vfs.If{}))
	if got := strings.Join(seen, "; "); got != "source rename f ; target replace z/g " {
		t.Errorf("seen: %s", got)
	}
}

// TestRenameMeasuresWhatMoves: whoever writes meanwhile, the target pays for
// what comes.
func TestRenameMeasuresWhatMoves(t *testing.T) {
	d, _, l, raw := two(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if f, err := raw.Lookup(context.Background(), "f"); err == nil {
					f.(vfs.File).Truncate(context.Background(), int64(i%2*50), vfs.If{})
				}
			}
		}
	})
	moved, refused := 0, 0
	for moved < 100 || refused < 1 {
		err := d[0].Rename(t.Context(), "f", d[1], "got", vfs.If{}, vfs.If{})
		switch vfs.CodeOf(err) {
		case "":
			moved++
			info, err := fileAt(t, raw, "got").Stat(t.Context())
			ok(t, err)
			if u := usageOf(l[1]); u.Bytes != info.Size {
				t.Fatalf("paid %d for %d bytes", u.Bytes, info.Size)
			}
			ok(t, d[1].Remove(t.Context(), "got", vfs.If{}))
			ok(t, put(t.Context(), raw, "f", "x"))
		case vfs.Conflict, vfs.NotFound:
			refused++
		default:
			t.Fatal(err)
		}
		if moved > 5000 {
			break // never overtaken: this machine does one at a time
		}
	}
	close(stop)
	wg.Wait()
}

// lying says that its files are empty.
type lying struct{ vfs.Dir }

func (l lying) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := l.Dir.Lookup(ctx, name)
	if f, is := n.(vfs.File); is {
		return lyingFile{f}, err
	}
	return n, err
}

type lyingFile struct{ vfs.File }

func (lyingFile) Stat(context.Context) (vfs.Info, error) { return vfs.Info{Kind: vfs.FileKind}, nil }

func (f lyingFile) Open(ctx context.Context) (vfs.Content, error) { return vfs.Open(ctx, f.File) }

// TestRenameReadsWhatMoves: a size that was asked for before or after need not
// be that of what moves.
func TestRenameReadsWhatMoves(t *testing.T) {
	s, raw := store(t, sample)
	l := newMeter(meter.Limits{meter.StoredBytes: 100})
	dst := vfs.Guarded(s.Root(), nil, vfs.Guard{Meter: l})
	ok(t, vfs.Guarded(lying{raw}, nil).Rename(t.Context(), "f", dst, "g", vfs.If{}, vfs.If{}))
	if u := usageOf(l); u.Bytes != 7 {
		t.Errorf("paid %d bytes", u.Bytes)
	}
}

// foreign is a guest's own directory: no method of it may be called.
type foreign struct {
	vfs.Dir
	t testing.TB
}

func (f foreign) Lookup(context.Context, string) (vfs.Node, error) {
	f.t.Error("a guest's directory was called")
	return nil, vfs.Internal
}

func (f foreign) Rename(context.Context, string, vfs.Dir, string, vfs.If, vfs.If) error {
	f.t.Error("a guest's directory was called")
	return nil
}

func TestRenameIntoAGuestsDir(t *testing.T) {
	d, _, raw := guarded(t, sample)
	is(t, "foreign", d.Rename(t.Context(), "f", foreign{t: t}, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	is(t, "the bare store", d.Rename(t.Context(), "f", raw, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	is(t, "nil", d.Rename(t.Context(), "f", nil, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	ro, err := vfs.ReadOnlyDir(d)
	ok(t, err)
	is(t, "readOnly first", ro.Rename(t.Context(), "f", foreign{t: t}, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
}

// TestCrossedRenames moves through two gates in both directions while both are
// locked and revoked: it never stops, and nothing moves after a revoke.
func TestCrossedRenames(t *testing.T) {
	for round := range 24 {
		d, c, _, raw := two(t)
		if round%2 == 1 { // two gates of one grant
			d[1], c[1] = controlled(t, d[0])
		}
		var wg sync.WaitGroup
		for w := range 4 {
			from, to := d[w%2], d[1-w%2]
			wg.Go(func() {
				name := fmt.Sprint("w", w)
				for i := 0; ; i++ {
					switch err := from.Rename(context.Background(), name, to, name+"x", vfs.If{}, vfs.If{}); vfs.CodeOf(err) {
					case vfs.Revoked:
						return
					case vfs.NotFound:
						put(context.Background(), to, name, "x")
					case "", vfs.ReadOnly, vfs.Exists, vfs.Conflict, vfs.Quota:
						to.Rename(context.Background(), name+"x", from, name, vfs.If{}, vfs.If{})
					default:
						t.Errorf("a rename: %v", err)
						return
					}
				}
			})
		}
		for i := range 8 {
			lock := c[i%2]
			ok(t, lock.SetWritable(false))
			time.Sleep(20 * time.Microsecond)
			ok(t, lock.SetWritable(true))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			var both sync.WaitGroup
			for _, c := range c {
				both.Go(func() { ok(t, c.Revoke()) })
			}
			both.Wait()
			before := picture(t, raw)
			wg.Wait()
			if after := picture(t, raw); after != before {
				t.Errorf("moved after the revoke: %s became %s", before, after)
			}
		}()
		select {
		case <-done:
		case <-time.After(30 * time.Second):
			t.Fatal("it stopped")
		}
	}
}
