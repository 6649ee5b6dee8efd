package hook

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// Rows of the configuration's hooks have a place below 0, and the others one above it.

// kept returns the hooks that were registered over the console, apart from those in file.
func (c *Chain) kept(ctx context.Context, file []*hook) (all []*hook, err error) {
	there := *c.all.Load()
	err = c.db.Read(ctx, func(r *database.Rows) error {
		all = nil
		rows, err := r.Query("SELECT spec, cursor FROM hooks WHERE place > 0 ORDER BY place")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			var cursor int64
			if err := rows.Scan(&text, &cursor); err != nil {
				return err
			}
			var spec operator.Hook
			if err := json.Unmarshal([]byte(text), &spec); err != nil {
				return err
			}
			if slices.ContainsFunc(file, func(f *hook) bool { return f.Name == spec.Name }) {
				c.logf("capd: the hook %s is that of the configuration now, and no more the one that was registered over the console", spec.Name)
				continue
			}
			if i := slices.IndexFunc(there, func(h *hook) bool { return h.Name == spec.Name && h.Source == operator.ConsoleSource }); i >= 0 {
				all = append(all, there[i]) // it goes on
				continue
			}
			h, err := compile(spec, nil)
			if err != nil {
				return vfs.Errorf(vfs.Corrupt, "the state has a hook that cannot be: %s", vfs.Message(err))
			}
			h.cursor = cursor
			all = append(all, h)
		}
		return rows.Err()
	})
	return all, err
}

// writeFile makes all the rows of the configuration's hooks, and sets their cursors.
func (c *Chain) writeFile(tx *database.Tx, all []*hook) error {
	was := map[string]bool{}
	rows, err := tx.Query("SELECT name FROM hooks WHERE place <= 0")
	if err != nil {
		return err
	}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			rows.Close()
			return err
		}
		was[name] = true
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for i, h := range all {
		if err := c.write(tx, h, int64(i-len(all))); err != nil {
			return err
		}
		delete(was, h.Name)
	}
	for name := range was {
		if err := c.delete(tx, name); err != nil {
			return err
		}
	}
	return nil
}

// writeAdded makes the row of a hook that is registered over the console. One that is there keeps its place.
func (c *Chain) writeAdded(tx *database.Tx, h *hook) error {
	var place int64
	err := tx.Row("SELECT place FROM hooks WHERE name=?", h.Name).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.Row("SELECT max(coalesce(max(place), 0), 0) + 1 FROM hooks").Scan(&place)
	}
	if err != nil {
		return err
	}
	return c.write(tx, h, place)
}

// write makes the row of h and sets its cursor: where it was if it was told already, and otherwise the end of the record.
func (c *Chain) write(tx *database.Tx, h *hook, place int64) error {
	var text string
	var was operator.Hook
	var cursor int64
	err := tx.Row("SELECT spec, cursor FROM hooks WHERE name=?", h.Name).Scan(&text, &cursor)
	switch {
	case err == nil:
		err = json.Unmarshal([]byte(text), &was)
	case errors.Is(err, sql.ErrNoRows):
		err = nil
	}
	if err == nil && !was.After {
		cursor, err = recordEnd(&tx.Rows)
	}
	if err != nil {
		return err
	}
	h.reached(max(h.cursor, cursor), "")
	spec, err := h.spec()
	if err == nil && !sameSpec(text, was, h.Hook) {
		err = c.note(tx, h.Name, "registered")
	}
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT INTO hooks(name, place, spec, cursor, made) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET place=excluded.place, spec=excluded.spec, cursor=excluded.cursor",
		h.Name, place, spec, cursor, time.Now().UnixMilli())
	return err
}

// sameSpec reports whether the row of was, with the spec text, is about h: only its line in the configuration may be another.
func sameSpec(text string, was, h operator.Hook) bool {
	if text == "" || (was.Source == operator.ConsoleSource) != (h.Source == operator.ConsoleSource) {
		return false
	}
	was.Source = h.Source
	a, err := json.Marshal(was)
	b, failed := json.Marshal(h)
	return err == nil && failed == nil && string(a) == string(b)
}

// delete deletes the row of a hook.
func (c *Chain) delete(tx *database.Tx, name string) error {
	_, err := tx.Exec("DELETE FROM hooks WHERE name=?", name)
	return cmp.Or(err, c.note(tx, name, "removed"))
}

// note adds to the record what became of a hook.
func (c *Chain) note(tx *database.Tx, name, said string) error {
	if c.log == nil {
		return nil
	}
	return c.log.Append(tx, record.Entry{Kind: record.Hook, Hooks: []record.Hooked{{Name: name, Said: said}}})
}

// recordEnd returns the number of the next entry of the record.
func recordEnd(r *database.Rows) (end int64, err error) {
	return end, r.Row("SELECT coalesce(max(seq) + 1, 0) FROM record").Scan(&end)
}
