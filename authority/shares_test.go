package authority_test

import (
	"strings"
	"testing"
	"time"

	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// shared returns the shares of what a secret stands for.
func (h *lasting) shared(secret []byte) []operator.Share {
	h.t.Helper()
	all, err := h.Shares(h.t.Context(), h.dir(secret), "", 100)
	ok(h.t, err)
	return all
}

// The terms of a share outlive the host, and it can be taken back by whoever holds what it was shared from.
func TestShareTermsOutliveTheHost(t *testing.T) {
	h, w := newTimed(t)
	top := h.grant("agent", "a", operator.Terms{})
	_, secret, ctl, err := h.ShareOn(t.Context(), h.dir(top), operator.ShareTerms{Expires: 2 * time.Hour, Unused: time.Hour, Uses: 3, StoredBytes: 5})
	ok(t, err)
	ctl.Release()
	_, idle, ctl, err := h.ShareOn(t.Context(), h.dir(top), operator.ShareTerms{Unused: time.Minute})
	ok(t, err)
	ctl.Release()
	h.restored("at first", secret, "")
	before := h.shared(top)
	if len(before) != 2 || before[0].UsesLeft != 2 || before[0].StoredBytes != 5 {
		t.Fatalf("the shares are %+v", before)
	}
	h.again(w)
	if after := h.shared(top); len(after) != 2 || after[0] != before[0] || after[1] != before[1] {
		t.Errorf("after a restart the shares are %+v, want %+v", after, before)
	}
	_, err = h.dir(secret).Replace(t.Context(), "large", strings.NewReader("123456"), vfs.If{})
	is(t, "beyond the quota, after a restart", err, vfs.Quota)
	w.advance(30 * time.Minute)
	h.restored("when nobody has used it for long", idle, vfs.Expired)
	h.restored("the third time", secret, "")
	h.restored("a fourth time", secret, vfs.Expired)

	ok(t, h.RevokeShare(t.Context(), h.dir(top), "1"))
	h.restored("what was taken back", secret, vfs.Revoked)
	h.again(w)
	h.restored("after another restart", secret, vfs.Revoked)
	w.advance(time.Second)
	h.Tick()
	if left := h.shared(top); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}

// A share that is not resident can be taken back. What was made revocable has no part in it.
func TestRevokeShareThatIsOnlyARow(t *testing.T) {
	h := newLasting(t)
	top := h.grant("agent", "a", operator.Terms{})
	secret, _ := h.share(top, "b")
	below, _ := h.share(secret, "c")
	h.restart()
	d := h.dir(top)
	lent, ctl, err := membrane.RevocableDir(d)
	ok(t, err)
	defer lent.Close()
	is(t, "behind another gate", h.RevokeShare(t.Context(), lent, "1"), vfs.NotFound)
	ctl.Release()
	ok(t, h.RevokeShare(t.Context(), d, "1/1"))
	h.restored("the share of the share", below, vfs.Revoked)
	h.restored("the share", secret, "")
	ok(t, h.RevokeShare(t.Context(), d, "1"))
	h.restored("the share then", secret, vfs.Revoked)
}
