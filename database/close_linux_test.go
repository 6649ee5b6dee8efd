package database_test

import (
	"os"
	"strings"
	"testing"

	"capd/database"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// A database that was written and read holds no file open once it is closed.
func TestCloseLeavesNothingOpen(t *testing.T) {
	st, err := state.Open(t.TempDir())
	check.OK(t, err)
	check.OK(t, st.Make())
	d, err := database.Open(st, database.Options{})
	check.OK(t, err)
	check.OK(t, d.Write(func(tx *database.Tx) error {
		_, err := tx.Exec("INSERT INTO subjects(name, made) VALUES('x', 1)")
		return err
	}))
	check.OK(t, d.Read(t.Context(), func(rows *database.Rows) error {
		var n int
		return rows.Row("SELECT count(*) FROM subjects").Scan(&n)
	}))
	check.OK(t, d.Close())
	files, err := os.ReadDir("/proc/self/fd")
	check.OK(t, err)
	for _, f := range files {
		if name, _ := os.Readlink("/proc/self/fd/" + f.Name()); strings.HasPrefix(name, string(st)) {
			t.Errorf("%s is open", name)
		}
	}
}
