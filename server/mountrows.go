package server

import (
	"context"
	"encoding/json"
	"time"

	"capd/database"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// console is what the operator's commands see of an FS. What they mount is mounted again at the next start, until they unmount it.
type console struct {
	*FS
	db     *database.DB
	record *record.Log // nil for none
}

// Mount implements [operator.VirtualFs]. The mount is durable when Mount returns.
func (c console) Mount(ctx context.Context, path, url string, a operator.Attenuation) error {
	url, err := AbsoluteURL(url)
	if err != nil {
		return err
	}
	if err := c.FS.Mount(ctx, path, url, a); err != nil {
		return err
	}
	text, err := json.Marshal(a)
	if err == nil {
		err = c.db.Write(func(tx *database.Tx) error {
			_, err := tx.Exec(`INSERT INTO mounts(path, url, attenuation, made) VALUES(?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET url=excluded.url, attenuation=excluded.attenuation, made=excluded.made`,
				[]byte(path), url, string(text), time.Now().UnixMilli())
			if err != nil {
				return err
			}
			return noteMount(tx, c.record, record.Mounted, path, url)
		})
	}
	if err != nil { // it would be gone after a restart
		_ = c.FS.Unmount(context.WithoutCancel(ctx), path)
	}
	return err
}

// Unmount implements [operator.VirtualFs]. It also forgets a mount that could not be mounted again.
func (c console) Unmount(ctx context.Context, path string) error {
	err := c.FS.Unmount(ctx, path)
	ended := err == nil
	if code := vfs.CodeOf(err); err != nil && code != vfs.NotFound {
		return err
	}
	known := false
	kept := c.db.Write(func(tx *database.Tx) error {
		done, err := tx.Exec("DELETE FROM mounts WHERE path=?", []byte(path))
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		known = n > 0
		if err == nil && (known || ended) {
			err = noteMount(tx, c.record, record.Unmounted, path, "")
		}
		return err
	})
	if known && kept == nil {
		return nil
	}
	if err == nil {
		err = kept
	}
	return err
}

// mountAgain mounts what the operator had mounted before, unless something else is to be mounted there. One that cannot
// be mounted is logged, and tried again at the next start.
func (s *Server) mountAgain(ctx context.Context) error {
	taken := map[string]bool{}
	for _, m := range s.Mounts {
		taken[m.Path] = true
	}
	all, err := mountRows(ctx, s.db)
	if err != nil {
		return err
	}
	for _, m := range all {
		if taken[m.Path] {
			continue
		}
		if err := s.noted("a mount", s.fs.Mount(ctx, m.Path, m.URL, m.Attenuation)); err != nil {
			s.logf("capd: %s: cannot be mounted now: %s; it is tried at each start until it is unmounted", operator.Place(m.Path), vfs.Message(err))
		}
	}
	return ctx.Err()
}

// mountRows returns what the operator has mounted, in byte order of paths.
func mountRows(ctx context.Context, db *database.DB) (all []Mount, err error) {
	err = db.Read(ctx, func(rows *database.Rows) error {
		all = nil
		found, err := rows.Query("SELECT path, url, attenuation FROM mounts ORDER BY path")
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var path []byte
			var m Mount
			var text string
			if err := found.Scan(&path, &m.URL, &text); err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(text), &m.Attenuation); err != nil {
				return err
			}
			m.Path = string(path)
			all = append(all, m)
		}
		return found.Err()
	})
	return all, err
}
