package authority

import (
	"context"
	"database/sql"
	"errors"

	"capd/approval"
	"capd/database"
	"capd/operator"
	"capd/vfs"
)

// answer is the grant that an equal wish got.
type answer struct {
	grant   int64
	ask     string // the bytes of the id of the request that was answered; "" if nobody was asked
	lasting bool
	ended   string
}

func (a answer) live() bool { return a.grant != 0 && a.ended == "" }

// answered returns the grant that a wish equal to w got, or the zero answer.
func (h *Host) answered(ctx context.Context, w *wish) (a answer, err error) {
	b := w.Binding()
	err = h.db.Read(ctx, func(rows *database.Rows) error { return a.find(rows, b[:]) })
	return a, err
}

func (a *answer) find(rows *database.Rows, binding []byte) error {
	var ask []byte
	err := rows.Row("SELECT grant_id, ask, lasting, COALESCE(ended, '') FROM requests JOIN grants ON id=grant_id WHERE binding=?", binding).Scan(&a.grant, &ask, &a.lasting, &a.ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	a.ask = string(ask)
	return err
}

// make makes the grant that answers w on t, or returns the one that a call beside it has made. yes is nil if nobody was asked.
func (h *Host) make(ctx context.Context, w *wish, yes *approval.Approval, t operator.Terms) (id int64, err error) {
	b := w.Binding()
	unlock, err := h.wishing.lock(ctx, b)
	if err != nil {
		return 0, err
	}
	defer unlock()
	var ask []byte
	if yes != nil {
		ask = yes.Bytes()
	}
	had, err := h.answered(ctx, w)
	if err != nil || had.grant != 0 && had.ask == string(ask) && (yes != nil || had.live()) {
		return had.grant, err
	}
	t.Root = w.Root
	_, _, err = h.grantOn(ctx, string(w.Subject), w.At, t, granting{fits: w.fits, check: w.room, also: func(tx *database.Tx, g *grant) error {
		id = g.id
		lasting := yes == nil || yes.Verdict().Answer == operator.Always
		_, err := tx.Exec("INSERT INTO requests(binding, ask, lasting, grant_id) VALUES(?, ?, ?, ?) ON CONFLICT DO UPDATE SET ask=excluded.ask, lasting=excluded.lasting, grant_id=excluded.grant_id",
			b[:], ask, lasting, g.id)
		if err == nil && yes != nil {
			err = yes.Made(tx, g.id)
		}
		return err
	}})
	return id, err
}

// maxRequested is how many live grants a subject has that it got by asking.
const maxRequested = 256

// room answers limit if the subject has too many grants that it got by asking.
func (w *wish) room(tx *database.Tx) error {
	var live int64
	if err := tx.Row("SELECT count(*) FROM grants JOIN requests ON grant_id=id WHERE name=? AND ended IS NULL", w.Subject.Name()).Scan(&live); err != nil {
		return err
	}
	if live >= maxRequested {
		return vfs.Errorf(vfs.Limit, "%d grants that were asked for are live, which is the most; ask for one directory that holds them, or have some taken back", live)
	}
	return nil
}

// fits answers notDir or isDir if n is not what w asks for.
func (w *wish) fits(n vfs.Node) error {
	if w.File {
		if _, dir := n.(vfs.Dir); dir {
			return vfs.IsDir
		}
		return nil
	}
	if _, dir := n.(vfs.Dir); !dir {
		return vfs.NotDir
	}
	return nil
}
