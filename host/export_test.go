package host

import "time"

// HandshakesOf has handshakes take no longer than d.
func HandshakesOf(d time.Duration) Options { return Options{handshakeTimeout: d} }
