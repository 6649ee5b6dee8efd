//go:build unix && !linux && !darwin

package physical

import "syscall"

// ctimeOf returns 0: each of these systems names the field differently. Without it no
// version is cached.
func ctimeOf(*syscall.Stat_t) int64 { return 0 }
func btimeOf(*syscall.Stat_t) int64 { return 0 }
