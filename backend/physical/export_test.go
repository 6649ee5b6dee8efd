package physical

// ListBytes is how much of a directory a listing keeps in memory.
var ListBytes = &listBytes

// Stats is what a store holds open.
type Stats struct{ Descriptors, Contents int }

// Stats returns the present counts.
func (s *Store) Stats() Stats {
	now := Stats{Contents: int(s.contents.Load())}
	if h, ok := s.host.(interface{ cached() int }); ok {
		now.Descriptors = h.cached()
	}
	return now
}
