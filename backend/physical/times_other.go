//go:build unix && !linux && !darwin

package physical

import "syscall"

// ctimeOf: each of these systems calls it otherwise. Without it no version is
// cached.
func ctimeOf(*syscall.Stat_t) int64 { return 0 }
func btimeOf(*syscall.Stat_t) int64 { return 0 }
