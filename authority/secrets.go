package authority

import (
	"context"
	"encoding/binary"
	"sync"

	"capd/database"
)

// secrets has a part of the digest of every secret in the database, so that one that a stranger has made up costs no read.
type secrets struct {
	mu  sync.RWMutex
	all map[uint64]struct{} // nil: they could not be read, and each may be there
}

func part(d []byte) uint64 { return binary.LittleEndian.Uint64(d) }

// load reads those that there are, if they can be read.
func (s *secrets) load(db *database.DB) {
	all := map[uint64]struct{}{}
	err := db.Read(context.Background(), func(rows *database.Rows) error {
		found, err := rows.Query("SELECT digest FROM grants UNION ALL SELECT digest FROM invites")
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var d []byte
			if err := found.Scan(&d); err != nil {
				return err
			}
			all[part(d)] = struct{}{}
		}
		return found.Err()
	})
	if err == nil {
		s.all = all
	}
}

// add adds one, before it is in the database.
func (s *secrets) add(d digest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all != nil {
		s.all[part(d[:])] = struct{}{}
	}
}

// may reports whether d may be in the database.
func (s *secrets) may(d digest) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.all[part(d[:])]
	return ok || s.all == nil
}
