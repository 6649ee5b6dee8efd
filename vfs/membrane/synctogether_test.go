package membrane_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"capd/backend/memory"
	"capd/vfs"
	"capd/vfs/membrane"
)

// place is a directory whose names were changed. It notes when it is synced.
type place struct {
	name   string
	synced *[]string
	open   *int
	err    error
}

func (p *place) Sync() error {
	*p.synced = append(*p.synced, p.name)
	return p.err
}

func (p *place) Close() error {
	*p.open--
	return nil
}

// However many names of a directory change, it is synced once, after the changes. Only a limited number of
// directories is held open, and no error is lost.
func TestSyncTogether(t *testing.T) {
	ctx, sync := vfs.SyncTogether(t.Context())
	ctx = context.WithoutCancel(ctx)
	var synced []string
	open, most := 0, 0
	failed := errors.New("failed")
	change := func(name string, err error) {
		open++
		most = max(most, open)
		if !vfs.SyncLater(ctx, name, &place{name, &synced, &open, err}) {
			t.Fatal("it is not synced later")
		}
	}
	if vfs.SyncLater(t.Context(), "a", &place{}) {
		t.Error("another context has it synced later")
	}
	for _, name := range []string{"a", "b", "a", "a", "c", "b"} {
		change(name, nil)
	}
	if len(synced) != 0 || open != 3 {
		t.Errorf("before its end %q are synced, and %d are open", synced, open)
	}
	if err := sync(); err != nil || !slices.Equal(synced, []string{"a", "b", "c"}) || open != 0 {
		t.Errorf("synced are %q (%v), and %d are open", synced, err, open)
	}
	synced = nil
	change("a", nil)
	for i := range 1000 {
		change(fmt.Sprint(i), map[bool]error{i == 5: failed}[true])
	}
	change("a", nil) // since the first it was synced
	if err := sync(); !errors.Is(err, failed) || open != 0 || most > 66 || len(synced) != 1002 || synced[1001] != "a" {
		t.Errorf("%v; %d are synced, %d open, %d at most", err, len(synced), open, most)
	}
	if err := sync(); err != nil {
		t.Errorf("nothing was changed: %v", err)
	}
}

// lazy is a store whose changes are synced later. It notes how many calls are inside its bulkhead then.
type lazy struct {
	vfs.Dir
	b      *membrane.Bulkhead
	inside *[]int
}

func (l lazy) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	d, err := l.Dir.Mkdir(ctx, name)
	if err == nil && !vfs.SyncLater(ctx, name, l) {
		err = errors.New("it is not synced later")
	}
	return d, err
}

func (l lazy) Sync() error {
	*l.inside = append(*l.inside, membrane.Stats(l.b).Inside)
	return nil
}

func (l lazy) Close() error { return nil }

// What is synced together is synced inside the bulkhead through which it was changed, so that a mount that
// hangs takes no additional threads.
func TestSyncTogetherInside(t *testing.T) {
	b := membrane.NewBulkhead(1)
	var inside []int
	d := membrane.Guarded(lazy{memory.New(memory.Limits{}).Root(), b, &inside}, nil, membrane.Guard{Bulkhead: b})
	ctx, sync := vfs.SyncTogether(t.Context())
	for i := range 70 { // more than wait at once
		if _, err := d.Mkdir(ctx, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	if len(inside) != 70 || slices.Min(inside) != 1 || slices.Max(inside) != 1 {
		t.Errorf("inside were, at each of %d: %v", len(inside), inside)
	}
}
