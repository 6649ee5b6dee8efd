package physical

import "syscall"

func ctimeOf(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
func btimeOf(st *syscall.Stat_t) int64 { return st.Birthtimespec.Nano() }
