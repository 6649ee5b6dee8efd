package authority

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"capd/database"
	"capd/locator"
	"capd/operator"
	"capd/record"
	"capd/vfs/membrane"
)

// WantedInvite is an invitation that there should be. Its Terms are checked.
type WantedInvite struct {
	Subject operator.Subject
	Terms   operator.InviteTerms
	Again   bool // if there was such an invitation and it has ended, there shall be no other
}

// StandingInvite is an invitation that there is, or one that has ended and shall not be made again.
type StandingInvite struct {
	operator.Invite
	Secret *[locator.SecretSize]byte // nil for an invitation that was there before
}

// ReconcileInvites makes the invitations of the configuration what is wanted, at most one for each subject: it keeps those
// that there are, on the terms that are wanted, makes those that are missing, and ends the others. It returns one for each that is
// wanted, in order. Other terms hold at once, also for who has asked with an invitation before. What was granted stays. Only one
// call may be under way.
func (h *Host) ReconcileInvites(ctx context.Context, wanted []WantedInvite) ([]StandingInvite, error) {
	all, numbers, err := h.findInvites(ctx, "WHERE made_by=? ORDER BY id", operator.ByConfig)
	if err != nil {
		return nil, err
	}
	last := map[operator.Subject]int{}
	for j, i := range all {
		last[i.Subject] = j
	}
	if err := h.endUnwanted(all, numbers, wanted); err != nil {
		return nil, err
	}
	out := make([]StandingInvite, len(wanted))
	for k, w := range wanted {
		j, was := last[w.Subject]
		switch {
		case was && all[j].State == operator.Active:
			out[k].Invite, err = h.changeInvite(numbers[j], all[j], w.Terms)
		case was && w.Again:
			out[k].Invite = all[j]
		default:
			var secret [locator.SecretSize]byte
			out[k].Invite, secret, err = h.invite(w.Subject, w.Terms, operator.ByConfig)
			out[k].Secret = &secret
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// endUnwanted ends those of all whose subject is not wanted.
func (h *Host) endUnwanted(all []operator.Invite, numbers []int64, wanted []WantedInvite) error {
	var gone []operator.Invite
	var ids []int64
	for j, i := range all {
		if i.State == operator.Active && !slices.ContainsFunc(wanted, func(w WantedInvite) bool { return w.Subject == i.Subject }) {
			gone, ids = append(gone, i), append(ids, numbers[j])
		}
	}
	_, err := h.endInvites(gone, ids)
	return err
}

// changeInvite makes the terms of i, which has that number, those of t, for good and at once.
func (h *Host) changeInvite(number int64, i operator.Invite, t operator.InviteTerms) (operator.Invite, error) {
	next := inviteOn(i, t)
	if next.Source == i.Source && next.ExpiresMs == i.ExpiresMs && slices.Equal(next.Permissions, i.Permissions) {
		return i, nil
	}
	write := h.db.Write
	if narrower(next.Permissions, i.Permissions) { // even if the disk is full
		write = h.db.Urgent
	}
	h.invited.terms.Lock()
	defer h.invited.terms.Unlock()
	var now operator.Invite
	err := write(func(tx *database.Tx) (err error) {
		now, err = h.keepInvite(tx, number, next)
		return err
	})
	if err != nil {
		return i, err
	}
	h.invited.say(number, now)
	if now.ExpiresMs != 0 {
		h.tickOn()
	}
	return now, nil
}

// keepInvite writes the terms of next, unless the invitation has ended, and returns what it is then.
func (h *Host) keepInvite(tx *database.Tx, number int64, next operator.Invite) (operator.Invite, error) {
	now, _, err := scanInvite(tx.Row(inviteColumns+"WHERE id=?", number), h.clock.Now())
	if err != nil || now.State != operator.Active {
		return now, err
	}
	texts, err := permissionsText(&next)
	if err != nil {
		return now, err
	}
	if _, err := tx.Exec("UPDATE invites SET permissions=?, source=?, expires=NULLIF(?, 0) WHERE id=?", texts, next.Source, next.ExpiresMs, number); err != nil {
		return now, err
	}
	if err := h.noteInvite(tx, record.Changed, &next); err != nil {
		return now, err
	}
	now, _, err = scanInvite(tx.Row(inviteColumns+"WHERE id=?", number), h.clock.Now())
	return now, err
}

// narrower reports whether next gives nothing that was does not give.
func narrower(next, was []operator.Permission) bool {
	return !slices.ContainsFunc(next, func(p operator.Permission) bool {
		return p.Rights&^operator.Permitted(was, p.Kind) != membrane.Rights(0)
	})
}

// OpensInvite reports whether a secret is that of the invitation with that id.
func (h *Host) OpensInvite(ctx context.Context, id string, secret []byte) bool {
	n, err := h.numberOfInvite(ctx, digestOf(secret))
	return err == nil && inviteText(n) == id
}

// RenewInvite makes a new secret for the invitation with that id, which ends the one that it had. Who has asked with that
// one can go on. The secret is durable when RenewInvite returns. It answers notFound.
func (h *Host) RenewInvite(id string) (secret [locator.SecretSize]byte, err error) {
	number, err := numberOfInviteID(id)
	if err != nil {
		return secret, err
	}
	secret = locator.NewSecret()
	d := digestOf(secret[:])
	h.secrets.add(d)
	err = h.db.Write(func(tx *database.Tx) error {
		var there int64
		if err := tx.Row("UPDATE invites SET digest=? WHERE id=? RETURNING id", d[:], number).Scan(&there); errors.Is(err, sql.ErrNoRows) {
			return errNoInvite
		} else if err != nil {
			return err
		}
		return nil
	})
	return secret, err
}
