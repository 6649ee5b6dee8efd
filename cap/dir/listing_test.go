package dir_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"capd/backend/memory"
	"capd/cap/dir"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Many calls ask at once for the page after one name, and only one listing may be kept for it. Run with
// -race.
func TestSamePageAtOnce(t *testing.T) {
	m := meter.NewHost(nil).Grant("g", meter.Limits{meter.Listings: 1})
	root := memory.New(memory.Limits{}).Root()
	for i := range 8 {
		if _, err := vfs.Put(t.Context(), root, fmt.Sprint("f", i), strings.NewReader("x"), vfs.If{}); err != nil {
			t.Fatal(err)
		}
	}
	n, ctl, err := membrane.Revocable(membrane.Guarded(root, nil), m)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Release()
	d := dir.New(n.(vfs.Dir))
	defer d.Release()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 400 {
				after := fmt.Sprint("f", i%6)
				err := vat.Do(t.Context(), d, schema.Dir_list, func(p schema.Dir_list_Params, _ *vat.Caps) error {
					p.SetLimit(1)
					return p.SetAfter([]byte(after))
				}, func(r schema.Dir_list_Results, _ *vat.Caps) error {
					l, err := r.Entries()
					if err != nil {
						return err
					}
					if name, _ := l.At(0).Name(); l.Len() != 1 || name <= after || !r.More() {
						t.Errorf("after %s: %d entries, %s, more %v", after, l.Len(), name, r.More())
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	d.Release()
	// The last call may hold the directory for a moment after it was answered.
	for end := time.Now().Add(30 * time.Second); m.Used(meter.Listings) != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d listings are counted in the end", m.Used(meter.Listings))
		}
	}
}
