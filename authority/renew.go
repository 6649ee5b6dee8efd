package authority

import (
	"context"

	"capd/database"
	"capd/locator"
)

// Opens reports whether a secret is that of the grant with that id.
func (h *Host) Opens(ctx context.Context, id string, secret []byte) bool {
	n, err := numberOf(id)
	if err != nil {
		return false
	}
	known, err := h.known(ctx, digestOf(secret))
	return err == nil && known == n
}

// Renew makes a new secret for the grant with that id, which ends the one that it had. What was restored with that
// one, and what was shared from it, stays. The secret is durable when Renew returns.
func (h *Host) Renew(ctx context.Context, id string) (secret [locator.SecretSize]byte, err error) {
	g, err := h.named(ctx, id)
	if err != nil {
		return secret, err
	}
	secret = locator.NewSecret()
	d := digestOf(secret[:])
	h.secrets.add(d)
	h.settings.Lock()
	defer h.settings.Unlock()
	err = h.db.Write(func(tx *database.Tx) error {
		_, err := tx.Exec("UPDATE grants SET digest=? WHERE id=?", d[:], g.id)
		return err
	})
	if err != nil {
		return secret, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, _ := h.residents.byID.Get(g.id); at != nil {
		h.residents.remove(at)
		at.digest = d
		h.residents.add(at)
	}
	return secret, nil
}
