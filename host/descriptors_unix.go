//go:build unix

package host

import "syscall"

// allowedDescriptors returns how many descriptors this process may have open:
// RLIMIT_NOFILE.
func allowedDescriptors() int {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return int(min(uint64(r.Cur), 1<<20))
}
