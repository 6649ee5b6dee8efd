package hook_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"capd/database"
	"capd/hook"
	"capd/operator"
	"capd/record"
	"capd/state"
	"capd/vfs/vfstest/check"
)

// change adds a change to the record, and how it ended.
func (h *host) change(t *testing.T, guest, path string) {
	t.Helper()
	i := h.begin(t, guest, path)
	i.End(record.Outcome{})
}

func (h *host) begin(t *testing.T, guest, path string) *record.Intent {
	t.Helper()
	holders := []record.Holder{{ID: "g1", Name: guest}}
	if root, _, shared := strings.Cut(guest, "/"); shared {
		holders = append(holders, record.Holder{ID: "g0", Name: root})
	}
	i := h.log.Intend(record.Entry{Op: "replace", Path: record.Path(path), Grants: holders})
	check.OK(t, i.Wait())
	return i
}

func number(t *testing.T, file string) int {
	t.Helper()
	text, err := os.ReadFile(file)
	check.OK(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	check.OK(t, err)
	return n
}

// TestAfter: a hook is told of what concerns it, in order, from its registration on; again what it failed at; and over a
// restart, when a change began before it and ended after.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := database.Memory()
		defer db.Close()
		h := opened(t, db, hook.Options{})
		h.change(t, "agent", "before") // c1
		f := &fake{after: func(n int) error {
			if n == 1 {
				return errors.New("not now")
			}
			return nil
		}}
		spec := operator.Hook{Name: "a", After: true, Subject: "extension:lint", Patterns: []string{"*"}}
		time.Sleep(2 * time.Second) // the outcome is in the record
		check.OK(t, h.AddHook(t.Context(), spec, f))
		h.change(t, "agent", "one")           // c4
		h.change(t, "extension:lint", "own")  // c6
		h.change(t, "agent", "not/a/pattern") // c8
		h.change(t, "agent/2", "share")
		open := h.begin(t, "agent", "over")
		time.Sleep(2 * time.Second)
		list, err := h.ListHooks(t.Context())
		check.OK(t, err)
		equal(t, []any{list[0].Behind, list[0].Failing}, []any{uint64(0), ""})
		before, after := h.Failures()
		equal(t, []uint64{before, after}, []uint64{0, 1})
		h.Close()
		open.End(record.Outcome{Err: errors.New("x")})
		check.OK(t, h.log.Close())

		h = opened(t, db, hook.Options{})
		defer h.end(t)
		h.change(t, "agent", "two")
		time.Sleep(2 * time.Second)
		list, err = h.ListHooks(t.Context())
		check.OK(t, err)
		if list[0].Behind == 0 || !list[0].Gone {
			t.Errorf("%+v", list[0])
		}
		check.OK(t, h.AddHook(t.Context(), spec, f))
		time.Sleep(2 * time.Second)
		var told []string
		for _, line := range f.heard() {
			_, line, _ = strings.Cut(line, " ")
			told = append(told, line)
		}
		equal(t, told, []string{
			"agent-run:agent replace one done", "agent-run:agent replace one done", "agent-run:agent replace share done",
			"agent-run:agent replace over failed", "agent-run:agent replace two done",
		})
	})
}

// TestAfterAtLeastOnce: a hook is told again when the host is killed between the call and the note of it. What it was told before
// that is not told again.
func TestAfterAtLeastOnce(t *testing.T) {
	dir, err := state.Open(t.TempDir())
	check.OK(t, err)
	check.OK(t, dir.Make())
	db, err := database.Open(dir, database.Options{})
	check.OK(t, err)
	h := opened(t, db, hook.Options{})
	copied := state.Dir(t.TempDir())
	killed := make(chan struct{})
	f := &fake{}
	f.after = func(n int) error {
		if n == 2 { // what a kill would leave here
			defer close(killed)
			return database.Backup(t.Context(), dir, copied.Database())
		}
		return nil
	}
	spec := operator.Hook{Name: "a", After: true}
	check.OK(t, h.AddHook(t.Context(), spec, f))
	h.change(t, "agent", "one")
	check.Eventually(t, "the first is noted", func() bool { return h.cursor(t) > 3 })
	h.change(t, "agent", "two")
	<-killed
	h.end(t)
	check.OK(t, db.Close())

	db, err = database.Open(copied, database.Options{})
	check.OK(t, err)
	defer db.Close()
	h = opened(t, db, hook.Options{})
	defer h.end(t)
	again := &fake{}
	check.OK(t, h.AddHook(t.Context(), spec, again))
	h.change(t, "agent", "three")
	check.Eventually(t, "two are told", func() bool { return len(again.heard()) >= 2 })
	first, second := f.heard(), again.heard()
	equal(t, second[0], first[1])
	equal(t, len(second), 2)
}

// cursor returns how far the database says that the only hook was told.
func (h *host) cursor(t *testing.T) (n int64) {
	check.OK(t, h.db.Read(t.Context(), func(r *database.Rows) error { return r.Row("SELECT cursor FROM hooks").Scan(&n) }))
	return n
}
