package scratch

import "golang.org/x/sys/unix"

var memory = func() string {
	const dir, room = "/dev/shm", 1 << 30
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil || st.Bavail*uint64(st.Bsize) < room || unix.Access(dir, unix.W_OK) != nil {
		return ""
	}
	return dir
}()

func alive(pid int) bool { return unix.Kill(pid, 0) != unix.ESRCH }
