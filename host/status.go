package host

import (
	"os"

	"capd/operator"
)

// process returns what the console shows and the authority does not know.
func (s *Server) process() operator.Process {
	s.mu.Lock()
	guests := len(s.conns) - s.operators
	s.mu.Unlock()
	return operator.Process{Connections: int64(guests), Descriptors: descriptors()}
}

// descriptors returns how many descriptors the process has open, or -1 when the system
// does not tell.
func descriptors() int64 {
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		return -1
	}
	return int64(len(all)) - 1 // without the directory itself
}
