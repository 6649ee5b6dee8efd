package authority_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"capd/database"
	"capd/meter"
	"capd/operator"
	"capd/vfs"
	"capd/vfs/membrane"
)

// settled waits until h has let go what it lets go, and returns how many grants are resident.
func (h *lasting) settled() int {
	h.WaitForBurials()
	n, digests, meters := h.Residents()
	if n != digests || n != meters {
		h.t.Errorf("%d grants are resident, %d by their digest and %d by their meter", n, digests, meters)
	}
	return n
}

// TestEviction: of many grants those stay resident that somebody holds. What was set of the others holds when they are resident
// again, and what is held is revoked.
func TestEviction(t *testing.T) {
	h := newLasting(t)
	h.KeepResident(16)
	held := h.grant("held", "a", operator.Terms{})
	heldDir := h.dir(held)
	locked := h.grant("locked", "a", operator.Terms{})
	parent := h.grant("parent", "a", operator.Terms{})
	share, ctl := h.share(parent, "b")
	ctl.Release()
	once := h.grant("once", "a", operator.Terms{Uses: 1})
	behind := h.behindGate(held)
	_, err := h.SetWritable("locked", false)
	ok(t, err)
	full := h.grant("full", "a", operator.Terms{Limits: meter.Limits{meter.StoredNodes: 1}})
	made, err := h.dir(full).Mkdir(t.Context(), "full")
	ok(t, err)
	ok(t, made.Close())

	var others [][]byte
	for i := range 100 {
		others = append(others, h.grant(fmt.Sprint("other", i), "a", operator.Terms{}))
		h.restored("another", others[i], "")
	}
	if n := h.settled(); n > 16+16/8+3 {
		t.Errorf("%d grants are resident", n)
	}
	for _, secret := range others {
		h.restored("another again", secret, "")
	}
	h.restored("once", once, "")
	h.restored("twice", once, vfs.Expired)
	_, err = h.dir(locked).Mkdir(t.Context(), "x")
	is(t, "in what was locked", err, vfs.ReadOnly)
	_, err = h.dir(full).Mkdir(t.Context(), "more")
	is(t, "beyond a limit", err, vfs.Quota)
	h.restored("a share", share, "")
	_, err = h.Revoke("parent")
	ok(t, err)
	h.restored("a share of what was revoked", share, vfs.Revoked)
	ok(t, behind.revoker.Revoke())
	h.restored("a share from behind a gate that was revoked", behind.share, vfs.Revoked)
	_, err = h.Revoke("held")
	ok(t, err)
	_, err = heldDir.Lookup(t.Context(), "b")
	is(t, "what was held all the time", err, vfs.Revoked)
}

// gated is a share that was made behind a gate, and the control of that.
type gated struct {
	share   []byte
	revoker *membrane.Control
}

// behindGate shares the directory of a secret from behind a gate that its holder made.
func (h *lasting) behindGate(secret []byte) gated {
	h.t.Helper()
	d, ctl, err := membrane.RevocableDir(h.dir(secret))
	ok(h.t, err)
	defer d.Close()
	share, revoker, err := h.Share(h.t.Context(), d)
	ok(h.t, err)
	revoker.Release()
	h.t.Cleanup(ctl.Release)
	return gated{share, ctl}
}

// TestEvictionRaces: while grants come and go, what was revoked or locked stays so for everybody.
func TestEvictionRaces(t *testing.T) {
	h := newLasting(t)
	h.KeepResident(1)
	const guests = 12
	var secrets [guests][]byte
	for i := range secrets {
		secrets[i] = h.grant(fmt.Sprint("guest", i), "a", operator.Terms{})
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for range 150 {
				i := random.IntN(guests)
				node, _, err := h.Restore(t.Context(), secrets[i])
				if err != nil {
					if vfs.CodeOf(err) != vfs.Revoked {
						t.Errorf("restoring: %v", err)
					}
					continue
				}
				if _, err := node.Stat(t.Context()); err != nil && vfs.CodeOf(err) != vfs.Revoked {
					t.Errorf("using: %v", err)
				}
				node.Close()
			}
		})
	}
	for i := range guests {
		all.Go(func() {
			name := fmt.Sprint("guest", i)
			node, _, err := h.Restore(t.Context(), secrets[i])
			if err != nil {
				t.Error(err)
				return
			}
			defer node.Close()
			if i%2 == 0 {
				_, err = h.Revoke(name)
			} else {
				_, err = h.SetWritable(name, false)
			}
			if err != nil {
				t.Error(err)
			}
			again, _, err := h.Restore(t.Context(), secrets[i])
			for _, at := range []vfs.Node{node, again} {
				switch {
				case i%2 == 0 && at == again:
					is(t, name+" again", err, vfs.Revoked)
				case i%2 == 0:
					_, err := at.Stat(t.Context())
					is(t, name, err, vfs.Revoked)
				default:
					_, err := at.(vfs.Dir).Mkdir(t.Context(), name)
					is(t, name, err, vfs.ReadOnly)
				}
			}
			if again != nil {
				again.Close()
			}
		})
	}
	all.Wait()
}

// TestMadeUpSecrets: a secret that no grant ever had costs no read of the database.
func TestMadeUpSecrets(t *testing.T) {
	h := newLasting(t)
	secret := h.grant("guest", "a", operator.Terms{})
	h.restart()
	made := make([]byte, len(secret))
	if _, _, err := h.TryRestore(made); vfs.CodeOf(err) != vfs.Denied {
		t.Errorf("a secret that was made up: %v", err)
	}
	h.restored("one that was not", secret, "")
	renewed, err := h.Renew(t.Context(), "g1")
	ok(t, err)
	h.restored("another for it", renewed[:], "")
	ok(t, h.db.Read(t.Context(), func(*database.Rows) error { return nil }))
}
