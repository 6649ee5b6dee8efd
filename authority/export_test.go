package authority

import (
	"time"

	"capd/database"
	"capd/record"
)

// WaitForBurials waits until what was revoked has let go of what it held.
func (h *Host) WaitForBurials() { h.burials.Wait() }

// Remember makes h remember only the last n of what has ended.
func (h *Host) Remember(n int) { h.forgets.most = n }

// Forget makes what is to be forgotten forgotten.
func (h *Host) Forget() error {
	return h.db.Write(func(*database.Tx) error { return nil }) // what was queued before is written with it
}

// Residents returns how many entries each index of the resident grants has.
func (h *Host) Residents() (ids, digests, meters int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &h.residents
	return r.byID.Len(), len(r.byDigest), len(r.byMeter)
}

// KeepResident has h keep about n grants resident that nobody holds.
func (h *Host) KeepResident(n int) { h.evictor.most = n }

// Quieten has spans of h end after that long without a write.
func Quieten(h *Host, d time.Duration) {
	h.spans.mu.Lock()
	defer h.spans.mu.Unlock()
	h.spans.quiet = d
}

// SetRecord has h write to another record.
func SetRecord(h *Host, l *record.Log) { h.record = l }

// Tick does what a host does every few seconds.
func (h *Host) Tick() {
	h.tickOn()
	h.tick()
}
