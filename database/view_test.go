package database

import (
	"testing"

	"capd/state"
	"capd/vfs"
)

// A view sees what a host writes meanwhile, and what it has left, and changes nothing.
func TestView(t *testing.T) {
	d := state.Dir(t.TempDir())
	_, err := OpenView(t.Context(), d)
	is(t, "no state", err, vfs.NotFound)
	db := opened(t, d, Options{})
	v, err := OpenView(t.Context(), d)
	ok(t, err)
	defer v.Close()
	there := func(v *View, key string) bool {
		t.Helper()
		var n int
		ok(t, v.Read(t.Context(), func(r *Rows) error { return r.Row("SELECT count(*) FROM meta WHERE key=?", key).Scan(&n) }))
		return n > 0
	}
	if there(v, "a") {
		t.Error("there before it was written")
	}
	ok(t, db.Write(put("a", "1")))
	if !there(v, "a") {
		t.Error("not seen beside the host")
	}
	is(t, "a change", v.Read(t.Context(), func(r *Rows) error {
		_, err := r.c.exec("DELETE FROM meta")
		return err
	}), vfs.Internal)
	ok(t, db.Close())
	later, err := OpenView(t.Context(), d)
	ok(t, err)
	defer later.Close()
	if !there(later, "a") {
		t.Error("not seen after the host")
	}
	steps := append(migrations(), "CREATE TABLE newer(x INTEGER) STRICT")
	db, err = open(d, Options{}, steps)
	ok(t, err)
	ok(t, db.Close())
	_, err = OpenView(t.Context(), d)
	is(t, "a newer state", err, vfs.Unsupported)
}
