//go:build !linux

package host

// allowedThreads returns what Go's runtime allows, since nothing is known of the system.
func allowedThreads() int { return goThreads }
