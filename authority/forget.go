package authority

import (
	"sync"

	"capd/database"
)

// MaxGone is about how many ended root grants are remembered, and how many ended shares of each
// root grant, so that their locators answer revoked. A guest that shares and takes back again and again makes the
// host forget only its own shares.
const MaxGone = 4096

// forgetEach is after how many ends what is too much is forgotten.
const forgetEach = 256

// forgetter forgets rows that ended long ago.
type forgetter struct {
	most int // MaxGone

	mu    sync.Mutex
	ends  int
	among map[int64]bool // whose shares have ended since; 0: root grants
}

// ended notes that n grants have ended among the shares of top, or among root grants if that is 0.
func (f *forgetter) ended(db *database.DB, top int64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.among == nil {
		f.among = map[int64]bool{}
	}
	f.among[top] = true
	if f.ends += n; f.ends < min(forgetEach, f.most) {
		return
	}
	among := f.among
	f.ends, f.among = 0, nil
	db.Later(func(tx *database.Tx) error {
		for top := range among {
			if err := forget(tx, top, f.most); err != nil {
				return err
			}
		}
		return nil
	})
}

// forget removes all but the most that ended last, and what was shared from those, which has ended too.
func forget(tx *database.Tx, top int64, most int) error {
	old := `DELETE FROM grants WHERE id IN (SELECT id FROM grants WHERE top IS NULLIF(?, 0) AND ended IS NOT NULL
		ORDER BY ended_at DESC, id DESC LIMIT -1 OFFSET ?)`
	_, err := tx.Exec(old, top, most)
	return err
}
