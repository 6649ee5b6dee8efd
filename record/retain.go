package record

import (
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"capd/database"
)

// Retention says how long entries are kept. The oldest are removed first, 256 at a time, and never while one of them is a
// change that has not ended. At least the newest 256 stay. What [Verify] needs of those that were removed is kept.
type Retention struct {
	Keep time.Duration // how old an entry may be; 0: DefaultKeep, below 0: any age
	Size int64         // how many bytes the JSON of all entries may have; 0: DefaultSize, below 0: any number
}

// The defaults of Retention.
const (
	DefaultKeep = 365 * 24 * time.Hour
	DefaultSize = 1 << 30
)

// complete returns r with the defaults.
func (r Retention) complete() Retention {
	if r.Keep == 0 {
		r.Keep = DefaultKeep
	}
	if r.Size == 0 {
		r.Size = DefaultSize
	}
	return r
}

// tooMuch reports whether entries of that many bytes are more than is to be kept.
func (r Retention) tooMuch(bytes int64) bool { return r.Size > 0 && bytes > r.Size }

func (r Retention) tooOld(at int64, now time.Time) bool {
	return r.Keep > 0 && at < now.Add(-r.Keep).UnixMilli()
}

// trimmedAtOnce is how many blocks a transaction removes at most.
const trimmedAtOnce = 16

// trimNow reports whether anything was removed.
func (l *Log) trimNow() bool {
	removed, err := l.trim()
	if err != nil {
		l.logf("capd: old entries of the record are not removed: %v", err)
	}
	return removed > 0
}

// trim removes what is not to be kept, and returns how many blocks that were.
func (l *Log) trim() (removed int, err error) {
	for {
		blocks := 0
		err := l.db.Write(func(tx *database.Tx) (err error) {
			blocks, err = l.trimSome(tx)
			return err
		})
		if removed += blocks; err != nil || blocks < trimmedAtOnce {
			return removed, err
		}
	}
}

const deleteEntries = "DELETE FROM record WHERE seq < ?"

// trimSome removes some blocks. The entry that says so is signed in the same transaction: nobody without the key can
// make it look as if entries had been removed because of their age.
func (l *Log) trimSome(tx *database.Tx) (blocks int, err error) {
	end, removed := l.first&^(blockSize-1), int64(0)
	for ; blocks < trimmedAtOnce; blocks++ {
		size, err := l.due(tx, end, l.bytes-removed)
		if err != nil {
			return 0, err
		}
		if size == 0 {
			break
		}
		if err := keepLeaves(tx, end); err != nil {
			return 0, err
		}
		end, removed = end+blockSize, removed+size
	}
	if blocks == 0 {
		return 0, nil
	}
	if _, err := tx.Exec(deleteEntries, end); err != nil {
		return 0, err
	}
	if err := l.Append(tx, Entry{Kind: Trimmed, Before: end}); err != nil {
		return 0, err
	}
	l.first, l.bytes = end, l.bytes-removed // a rollback restores both, see add
	_, err = l.signNow(tx, false)
	return blocks, err
}

const selectBlock = "SELECT coalesce(sum(length(body)), 0), coalesce(max(at), 0) FROM record WHERE seq >= ? AND seq < ?"

// due returns how many bytes the block from number first on has if it is to be removed, and otherwise 0. bytes is how many
// all entries from there on have.
func (l *Log) due(tx *database.Tx, first, bytes int64) (size int64, err error) {
	end := first + blockSize
	if end+blockSize > l.tree.size {
		return 0, nil
	}
	for id := range l.open {
		if id < end {
			return 0, nil
		}
	}
	var newest int64
	if err := tx.Row(selectBlock, first, end).Scan(&size, &newest); err != nil {
		return 0, err
	}
	if l.retain.tooMuch(bytes) || l.retain.tooOld(newest, l.now()) {
		return size, nil
	}
	return 0, nil
}

const (
	selectGiven  = "SELECT count(*) FROM checkpoints WHERE given = 1 AND size > ? AND size < ?"
	selectLeaves = "SELECT body FROM record WHERE seq >= ? AND seq < ? ORDER BY seq"
	insertLeaves = "INSERT INTO leaves(block, hashes) VALUES(?, ?) ON CONFLICT DO NOTHING"
)

// keepLeaves keeps the hashes of the block from number first on, if a given checkpoint ends among its entries.
func keepLeaves(tx *database.Tx, first int64) error {
	var given int
	if err := tx.Row(selectGiven, first, first+blockSize).Scan(&given); err != nil || given == 0 {
		return err
	}
	var hashes []byte
	err := each(&tx.Rows, func(body []byte) error {
		h := tlog.RecordHash(body)
		hashes = append(hashes, h[:]...)
		return nil
	}, selectLeaves, first, first+blockSize)
	if err == nil && len(hashes) != blockSize*tlog.HashSize {
		err = errDamaged
	}
	if err == nil {
		_, err = tx.Exec(insertLeaves, first>>blockLevel, hashes)
	}
	return err
}
