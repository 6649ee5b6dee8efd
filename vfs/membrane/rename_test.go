package membrane_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// two returns two grants over one store, each with its ledger and its control.
func two(t testing.TB) (d [2]vfs.Dir, c [2]*membrane.Control, l [2]*meter.Meter, raw vfs.Dir) {
	t.Helper()
	s, raw := check.Store(t, check.Sample)
	for i := range 2 {
		l[i] = check.NewMeter(meter.Limits{meter.StoredBytes: 100, meter.StoredNodes: 10})
		d[i], c[i] = check.Controlled(t, membrane.Guarded(s.Root(), nil, membrane.Guard{Meter: l[i]}))
	}
	return d, c, l, raw
}

func TestRenameBetweenGrants(t *testing.T) {
	d, _, l, raw := two(t)
	ctx := t.Context()
	check.OK(t, check.Put(ctx, d[0], "mine", strings.Repeat("x", 40)))
	used := func(what string, i int, bytes, nodes int64) {
		t.Helper()
		if u := check.UsageOf(l[i]); u.Bytes != bytes || u.Nodes != nodes {
			t.Errorf("%s: ledger %d has %+v, want %d bytes, %d nodes", what, i, u, bytes, nodes)
		}
	}
	used("made", 0, 40, 1)
	check.OK(t, d[0].Rename(ctx, "mine", check.DirAt(t, d[1], "z"), "yours", vfs.If{}, vfs.If{}))
	used("moved", 0, 0, 0)
	used("moved", 1, 40, 1)
	if check.Read(t, raw, "z/yours") != strings.Repeat("x", 40) {
		t.Error("not there")
	}

	// What is overwritten is credited only to the one who stored it.
	check.OK(t, check.Put(ctx, d[0], "keep", strings.Repeat("y", 60)))
	check.OK(t, check.Put(ctx, d[0], "empty", ""))
	used("made", 0, 60, 2)
	version, err := vfs.VersionOf(ctx, check.FileAt(t, raw, "z/yours"))
	check.OK(t, err)
	check.OK(t, d[0].Rename(ctx, "empty", check.DirAt(t, d[1], "z"), "yours", vfs.If{}, vfs.If{Is: version}))
	used("overwritten", 0, 60, 1)
	used("overwritten", 1, 0, 1)

	version, err = vfs.VersionOf(ctx, check.FileAt(t, raw, "z/yours"))
	check.OK(t, err)
	check.OK(t, check.Put(ctx, d[1], "theirs", "12345"))
	used("made", 1, 5, 2)
	check.OK(t, check.Put(ctx, d[0], "small", "123"))
	check.OK(t, d[0].Rename(ctx, "small", d[1], "theirs", vfs.If{}, vfs.If{Over: true}))
	used("replaced", 0, 60, 1)
	used("replaced", 1, 3, 2)
	check.OK(t, d[1].Remove(ctx, "theirs", vfs.If{}))

	// The target's allowance decides before anything is changed.
	check.OK(t, check.Put(ctx, raw, "big", strings.Repeat("z", 101)))
	check.Is(t, "too large", d[0].Rename(ctx, "big", d[1], "big2", vfs.If{}, vfs.If{}), vfs.Quota)
	used("refused", 0, 60, 1)
	used("refused", 1, 0, 1)
	check.Is(t, "a directory", d[0].Rename(ctx, "a", d[1], "a2", vfs.If{}, vfs.If{}), vfs.Denied)
	check.Is(t, "a link", d[0].Rename(ctx, "l", d[1], "l2", vfs.If{}, vfs.If{}), vfs.Denied)
	check.Is(t, "missing", d[0].Rename(ctx, "none", d[1], "n", vfs.If{}, vfs.If{}), vfs.NotFound)
	check.Is(t, "another version", d[0].Rename(ctx, "keep", d[1], "n", vfs.If{Is: version}, vfs.If{}), vfs.Conflict)
	ro, err := membrane.ReadOnlyDir(d[1])
	check.OK(t, err)
	check.Is(t, "read-only target", d[0].Rename(ctx, "keep", ro, "n", vfs.If{}, vfs.If{}), vfs.ReadOnly)
	used("refused", 0, 60, 1)
	used("refused", 1, 0, 1)
}

// TestRenameBetweenGrantsIsSeenInPart: the guard of one grant does not learn where in the
// other's tree a file is.
func TestRenameBetweenGrantsIsSeenInPart(t *testing.T) {
	s, raw := check.Store(t, check.Sample)
	var seen []string
	says := func(who string) membrane.Guard {
		return check.Around(func(ctx context.Context, op membrane.Op, do check.Do) (vfs.Effect, error) {
			if op.Kind.Changes() {
				seen = append(seen, fmt.Sprint(who, " ", op.Kind, " ", op.Path, " ", op.To))
			}
			return do(ctx)
		})
	}
	src, tgt := membrane.Guarded(s.Root(), nil, says("source")), check.DirAt(t, membrane.Guarded(raw, nil, says("target")), "z")
	check.OK(t, src.Rename(t.Context(), "f", tgt, "g", vfs.If{}, vfs.If{}))
	if got := strings.Join(seen, "; "); got != "source rename f ; target replace z/g " {
		t.Errorf("seen: %s", got)
	}
}

// TestRenameMeasuresWhatMoves: what arrives counts in the target's meter, even if somebody
// writes to it during the move.
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
			info, err := check.FileAt(t, raw, "got").Stat(t.Context())
			check.OK(t, err)
			if u := check.UsageOf(l[1]); u.Bytes != info.Size {
				t.Fatalf("paid %d for %d bytes", u.Bytes, info.Size)
			}
			check.OK(t, d[1].Remove(t.Context(), "got", vfs.If{}))
			check.OK(t, check.Put(t.Context(), raw, "f", "x"))
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

// TestRenameReadsWhatMoves: a size that was read before or after may differ from the size
// of what moves.
func TestRenameReadsWhatMoves(t *testing.T) {
	s, raw := check.Store(t, check.Sample)
	l := check.NewMeter(meter.Limits{meter.StoredBytes: 100})
	dst := membrane.Guarded(s.Root(), nil, membrane.Guard{Meter: l})
	check.OK(t, membrane.Guarded(lying{raw}, nil).Rename(t.Context(), "f", dst, "g", vfs.If{}, vfs.If{}))
	if u := check.UsageOf(l); u.Bytes != 7 {
		t.Errorf("paid %d bytes", u.Bytes)
	}
}

// foreign is a directory that a guest serves: no method of it may be called.
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
	d, _, raw := check.Guarded(t, check.Sample)
	check.Is(t, "foreign", d.Rename(t.Context(), "f", foreign{t: t}, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	check.Is(t, "the bare store", d.Rename(t.Context(), "f", raw, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	check.Is(t, "nil", d.Rename(t.Context(), "f", nil, "g", vfs.If{}, vfs.If{}), vfs.Unsupported)
	ro, err := membrane.ReadOnlyDir(d)
	check.OK(t, err)
	check.Is(t, "readOnly first", ro.Rename(t.Context(), "f", foreign{t: t}, "g", vfs.If{}, vfs.If{}), vfs.ReadOnly)
}

// TestCrossedRenames moves through two gates in both directions while both are locked and
// revoked. It never hangs, and nothing moves after a revoke.
func TestCrossedRenames(t *testing.T) {
	for round := range 24 {
		d, c, _, raw := two(t)
		if round%2 == 1 { // two gates of one grant
			d[1], c[1] = check.Controlled(t, d[0])
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
						check.Put(context.Background(), to, name, "x")
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
			check.OK(t, lock.SetWritable(false))
			time.Sleep(20 * time.Microsecond)
			check.OK(t, lock.SetWritable(true))
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			var both sync.WaitGroup
			for _, c := range c {
				both.Go(func() { check.OK(t, c.Revoke()) })
			}
			both.Wait()
			before := check.Picture(t, raw)
			wg.Wait()
			if after := check.Picture(t, raw); after != before {
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
