package membrane_test

import (
	"slices"
	"testing"

	"capd/vfs/membrane"
	"capd/vfs/vfstest/check"
)

// kept is settings that remember which ids were revoked.
type kept struct{ ids []int64 }

func (k *kept) Revoked(ids []int64) error {
	k.ids = append(k.ids, ids...)
	return nil
}

func (*kept) Set(int64, string, membrane.Refusals) error { return nil }

// TestRevokedIsKeptAlthoughReleased: a capability is kept as revoked even if whoever is told of its end releases it at once.
func TestRevokedIsKeptAlthoughReleased(t *testing.T) {
	_, raw := check.Store(t, check.Sample)
	var k kept
	g := membrane.NewKeptGate(&k, &membrane.Clock{})
	defer g.Release()
	a, above := check.Controlled(t, membrane.Guarded(raw, g))
	b, below, err := membrane.RevocableDir(a)
	check.OK(t, err)
	below.Keep(7)
	membrane.OnRevoke(b, func(error) {
		b.Close()
		below.Release()
	})
	check.OK(t, above.Revoke())
	if !slices.Equal(k.ids, []int64{7}) {
		t.Errorf("%v are kept as revoked", k.ids)
	}
}
