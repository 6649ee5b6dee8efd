package authority_test

import (
	"crypto/sha256"
	"encoding/binary"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"capd/database"
	"capd/operator"
)

// madeSecret returns the secret of the nth of many grants.
func madeSecret(n int) []byte {
	secret := make([]byte, 32)
	binary.LittleEndian.PutUint64(secret, uint64(n))
	return secret
}

// TestManyGrants: a host starts with 100,000 grants (6,000 in a plain run), restores any of them and keeps few in memory.
func TestManyGrants(t *testing.T) {
	many := 6_000
	if os.Getenv("CAPD_CI") != "" {
		many = 100_000
	}
	h := newLasting(t)
	h.grant("first", "a", operator.Terms{})
	ok(t, h.db.Write(func(tx *database.Tx) error {
		for n := range many {
			d := sha256.Sum256(madeSecret(n))
			if _, err := tx.Exec(`INSERT INTO grants(subject, name, digest, path, identity, mounts, rights, source, made)
				SELECT subject, name, ?, path, identity, mounts, rights, source, made FROM grants WHERE id=1`, d[:]); err != nil {
				return err
			}
		}
		return nil
	}))
	h.end()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := time.Now()
	h.start()
	started := time.Since(begun)
	var took []time.Duration
	for n := 0; n < many; n += 1 + many/20_000 {
		begun := time.Now()
		node, _, err := h.Restore(t.Context(), madeSecret(n))
		ok(t, err)
		took = append(took, time.Since(begun))
		node.Close()
	}
	resident := h.settled()
	runtime.GC()
	runtime.ReadMemStats(&after)
	slices.Sort(took)
	grown := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) >> 20
	t.Logf("%d grants: start %v, restore p50 %v, p99 %v, %d resident, %d MiB", many, started.Round(time.Millisecond),
		took[len(took)/2].Round(time.Microsecond), took[len(took)*99/100].Round(time.Microsecond), resident, grown)
	if resident > 4096+4096/8+1 {
		t.Errorf("%d grants are resident", resident)
	}
	if grown > 100 {
		t.Errorf("they take %d MiB", grown)
	}
	all, err := h.Grants("g50", 100)
	if ok(t, err); len(all) != 100 || all[0].ID != "g51" {
		t.Errorf("%d are listed", len(all))
	}
}
