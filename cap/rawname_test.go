package cap_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unicode/utf8"

	"capd/backend/physical"
	schema "capd/capnp"
	"capd/tests/scene"
	"capd/vat"
)

// Names that are not UTF-8 are listed, in order, and can be used as they are.
func TestRawNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a\xff", "b", "\xc3", "é"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Logf("this file system takes no such names: %v", err)
			return
		}
	}
	store, err := physical.OpenAmbient(dir, physical.Options{})
	ok(t, err)
	t.Cleanup(func() { store.Close() })
	s := serve(t, store.Root(), nil)
	loc, _ := s.Grant(t, "agent", "", false)
	d := scene.Dial(t, loc).Dir(context.Background())

	var got []string
	for e, err := range d.Entries(t.Context(), true) {
		ok(t, err)
		got = append(got, e.Name)
		if e.Size != int64(len(e.Name)) {
			t.Errorf("%q has %d bytes", e.Name, e.Size)
		}
		b, _, err := d.OpenFile(e.Name).ReadBytes(t.Context())
		if ok(t, err); string(b) != e.Name {
			t.Errorf("%q reads %q", e.Name, b)
		}
	}
	if want := []string{"a\xff", "b", "\xc3", "é"}; !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the names are %q", got)
	}
	ok(t, call(t, d.Cap(), schema.Dir_list, nil, func(r schema.Dir_list_Results, _ *vat.Caps) error {
		l, err := r.Entries()
		ok(t, err)
		for i := range l.Len() {
			name, err := l.At(i).Name()
			ok(t, err)
			if !utf8.ValidString(name) || l.At(i).HasRawName() == (name == "b" || name == "é") {
				t.Errorf("entry %q: has a raw name: %v", name, l.At(i).HasRawName())
			}
		}
		return nil
	}))
}
