package authority

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	"capd/database"
	"capd/locator"
	"capd/operator"
	"capd/record"
	"capd/vfs"
)

// MaxInvites is how many invitations are live at once, and how many that have ended are remembered.
const MaxInvites = 4096

// Invite lets a subject ask for grants. Whoever has the secret can ask as that subject. The invitation is durable when
// Invite returns. It answers what [operator.ParseSubject] and [operator.InviteTerms.Check] answer, and limit.
func (h *Host) Invite(ctx context.Context, guest string, t operator.InviteTerms) (i operator.Invite, secret [locator.SecretSize]byte, err error) {
	if err := t.Check(); err != nil {
		return i, secret, err
	}
	if i.Subject, err = operator.ParseSubject(guest); err != nil {
		return i, secret, err
	}
	return h.invite(i.Subject, t, operator.ByOperator)
}

// invite makes an invitation on the terms t, which are checked. by says who makes it.
func (h *Host) invite(subject operator.Subject, t operator.InviteTerms, by string) (i operator.Invite, secret [locator.SecretSize]byte, err error) {
	i = inviteOn(operator.Invite{Subject: subject, MadeBy: by, State: operator.Active, MadeMs: h.clock.Now()}, t)
	secret = locator.NewSecret()
	h.secrets.add(digestOf(secret[:]))
	err = h.db.Write(func(tx *database.Tx) error { return h.insertInvite(tx, &i, digestOf(secret[:])) })
	if err == nil && i.ExpiresMs != 0 {
		h.tickOn()
	}
	return i, secret, err
}

// inviteOn returns i on the terms t. Its time counts from when it was made.
func inviteOn(i operator.Invite, t operator.InviteTerms) operator.Invite {
	i.Permissions, i.Source, i.ExpiresMs = t.Permissions, cmp.Or(t.Source, operator.ByManifest), 0
	if t.Expires > 0 {
		i.ExpiresMs = i.MadeMs + max(t.Expires.Milliseconds(), 1)
	}
	return i
}

func (h *Host) insertInvite(tx *database.Tx, i *operator.Invite, d digest) error {
	var live int64
	if err := tx.Row("SELECT count(*) FROM invites WHERE ended IS NULL AND (expires IS NULL OR expires>?)", i.MadeMs).Scan(&live); err != nil {
		return err
	}
	if live >= MaxInvites {
		return vfs.Errorf(vfs.Limit, "%d invitations are live, which is the most; end some", live)
	}
	texts, err := permissionsText(i)
	if err != nil {
		return err
	}
	done, err := tx.Exec("INSERT INTO invites(digest, subject, expires, made, permissions, source, made_by) VALUES(?, ?, NULLIF(?, 0), ?, ?, ?, ?)",
		d[:], i.Subject, i.ExpiresMs, i.MadeMs, texts, i.Source, i.MadeBy)
	if err != nil {
		return err
	}
	number, err := done.LastInsertId()
	if err != nil {
		return err
	}
	i.ID = inviteText(number)
	if _, err := tx.Exec(`DELETE FROM invites WHERE id IN (SELECT id FROM invites WHERE ended IS NOT NULL OR expires<=? ORDER BY id DESC LIMIT -1 OFFSET ?)`, i.MadeMs, MaxInvites); err != nil {
		return err
	}
	return h.noteInvite(tx, record.Invited, i)
}

func permissionsText(i *operator.Invite) (string, error) {
	texts, err := json.Marshal(append([]operator.Permission{}, i.Permissions...))
	if err != nil {
		return "", vfs.Hide(err)
	}
	return string(texts), nil
}

// noteInvite adds to the record that an invitation was made, has changed or has ended.
func (h *Host) noteInvite(tx *database.Tx, k record.Kind, i *operator.Invite) error {
	if h.record == nil {
		return nil
	}
	return h.record.Append(tx, record.Entry{Kind: k, Subject: string(i.Subject), Invite: i.ID})
}

func inviteText(n int64) string { return "i" + strconv.FormatInt(n, 10) }

var inviteForm = regexp.MustCompile(`^i[0-9]+$`)

const inviteColumns = "SELECT id, subject, COALESCE(expires, 0), made, ended IS NOT NULL, permissions, source, made_by FROM invites "

// scanInvite reads inviteColumns. now tells whether the invitation has expired.
func scanInvite(from interface{ Scan(...any) error }, now int64) (i operator.Invite, number int64, err error) {
	var ended bool
	var texts string
	if err = from.Scan(&number, &i.Subject, &i.ExpiresMs, &i.MadeMs, &ended, &texts, &i.Source, &i.MadeBy); err != nil {
		return i, 0, err
	}
	i.ID, i.State = inviteText(number), operator.Active
	switch {
	case ended:
		i.State = operator.Revoked
	case i.ExpiresMs != 0 && i.ExpiresMs <= now:
		i.State = operator.Expired
	}
	return i, number, json.Unmarshal([]byte(texts), &i.Permissions)
}

// invites returns the invitations that a query for inviteColumns finds.
func (h *Host) findInvites(ctx context.Context, query string, args ...any) (all []operator.Invite, numbers []int64, err error) {
	err = h.db.Read(ctx, func(rows *database.Rows) error {
		all, numbers = nil, nil
		found, err := rows.Query(inviteColumns+query, args...)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			i, n, err := scanInvite(found, h.clock.Now())
			if err != nil {
				return err
			}
			h.withdrawn.markInvite(n, &i)
			all, numbers = append(all, i), append(numbers, n)
		}
		return found.Err()
	})
	return all, numbers, err
}

// Invites returns the invitations, the oldest first, also the last [MaxInvites] that have ended. Their permissions are also those that the
// configuration gives their subjects.
func (h *Host) Invites(ctx context.Context) ([]operator.Invite, error) {
	all, _, err := h.findInvites(ctx, "ORDER BY id")
	for i := range all {
		all[i].Permissions = h.permissions(all[i])
	}
	return all, err
}

// RevokeInvite ends the invitation with that id. What waits for an answer ends, and its holders can ask for nothing
// more. The grants that were got with it stay. It answers notFound.
func (h *Host) RevokeInvite(id string) error {
	number, err := numberOfInviteID(id)
	if err != nil {
		return err
	}
	all, numbers, err := h.findInvites(context.Background(), "WHERE id=?", number)
	if err == nil && len(all) == 0 {
		err = errNoInvite
	}
	if err != nil {
		return err
	}
	_, err = h.endInvites(all, numbers)
	return err
}

// numberOfInviteID returns the number in the id of an invitation.
func numberOfInviteID(id string) (int64, error) {
	if !inviteForm.MatchString(id) {
		return 0, errNoInvite
	}
	number, err := strconv.ParseInt(id[1:], 10, 64)
	if err != nil {
		return 0, errNoInvite
	}
	return number, nil
}

var errNoInvite = vfs.Errorf(vfs.NotFound, "no invitation has that id; invites() lists them")

// uninvite ends the invitations of a guest, and returns how many there were.
func (h *Host) uninvite(guest string) (known bool, n int, err error) {
	s, err := operator.ParseSubject(guest)
	if err != nil {
		return false, 0, nil // the id of a grant, or a share
	}
	all, numbers, err := h.findInvites(context.Background(), "WHERE subject=?", s)
	if err == nil {
		n, err = h.endInvites(all, numbers)
	}
	return len(all) > 0, n, err
}

// endInvites ends those that are active, first in memory.
func (h *Host) endInvites(all []operator.Invite, numbers []int64) (n int, err error) {
	h.invited.shut(numbers, vfs.Revoked)
	var live []int64
	for j, i := range all {
		if i.State == operator.Active {
			live = append(live, numbers[j])
		}
	}
	if len(live) == 0 {
		return 0, nil
	}
	err = h.withdraw(withdrawal{Invites: live}, func(tx *database.Tx) error { return h.endInvite(tx, live) })
	h.invited.shut(numbers, vfs.Revoked) // what began to be used meanwhile
	return len(live), err
}

// endInvite ends those of the invitations with these numbers that are active.
func (h *Host) endInvite(tx *database.Tx, numbers []int64) error {
	for _, n := range numbers {
		i, _, err := scanInvite(tx.Row(inviteColumns+"WHERE id=?", n), h.clock.Now())
		if errors.Is(err, sql.ErrNoRows) || err == nil && i.State != operator.Active {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE invites SET ended=? WHERE id=? AND ended IS NULL", h.clock.Now(), n); err != nil {
			return err
		}
		if err := h.noteInvite(tx, record.Revoked, &i); err != nil {
			return err
		}
	}
	return nil
}

// numberOfInvite returns the number of the invitation with that digest.
func (h *Host) numberOfInvite(ctx context.Context, d digest) (n int64, err error) {
	err = h.db.Read(ctx, func(rows *database.Rows) error {
		return rows.Row("SELECT id FROM invites WHERE digest=?", d[:]).Scan(&n)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errNoLocator
	}
	return n, err
}
