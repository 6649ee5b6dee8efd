package host

import (
	"time"

	"capd/authority"
)

// Authority returns what s serves.
func (s *Server) Authority() *authority.Host { return s.host }

// HandshakesOf has handshakes take no longer than d.
func HandshakesOf(d time.Duration) Options { return Options{handshakeTimeout: d} }
