package host

import (
	"fmt"
	"maps"
	"testing"
	"testing/fstest"
)

// TestThreadsAllowed reads the files of several kinds of systems.
func TestThreadsAllowed(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	status := func(uid, threads int, caps string) *fstest.MapFile {
		return file(fmt.Sprintf("Name:\tcapd\nUid:\t%d\t%d\t%d\t%d\nThreads:\t%d\nCapEff:\t%s\n", uid, uid, uid, uid, threads, caps))
	}
	const none = "0000000000000000"
	plain := fstest.MapFS{
		"proc/self/status":            status(1000, 10, none),
		"proc/self/limits":            file("Limit  Soft  Hard  Units\nMax processes             unlimited            unlimited            processes \n"),
		"proc/loadavg":                file("0.1 0.2 0.3 3/700 4711\n"),
		"proc/sys/kernel/threads-max": file("190000\n"),
		"proc/sys/kernel/pid_max":     file("4194304\n"),
	}
	v2 := fstest.MapFS{
		"proc/self/cgroup":    file("0::/user/service\n"),
		"proc/self/mountinfo": file("30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
	}
	v1 := fstest.MapFS{
		"proc/self/cgroup":    file("8:pids:/docker/abc\n0::/\n"),
		"proc/self/mountinfo": file("39 31 0:36 /docker/abc /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n40 31 0:37 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"),
	}
	for name, c := range map[string]struct {
		base fstest.MapFS
		more fstest.MapFS
		want int
	}{
		"nothing can be read":   {fstest.MapFS{}, nil, 10_000},
		"nothing is limited":    {plain, nil, 9_990},
		"v2, no limit":          {v2, fstest.MapFS{"sys/fs/cgroup/user/service/pids.max": file("max\n")}, 9_990},
		"v2, its own group":     {v2, fstest.MapFS{"sys/fs/cgroup/user/service/pids.max": file("500\n"), "sys/fs/cgroup/user/service/pids.current": file("12\n")}, 488},
		"v2, a group above":     {v2, fstest.MapFS{"sys/fs/cgroup/user/pids.max": file("300\n"), "sys/fs/cgroup/user/pids.current": file("100\n"), "sys/fs/cgroup/user/service/pids.max": file("250\n")}, 200},
		"v1, in a container":    {v1, fstest.MapFS{"sys/fs/cgroup/pids/pids.max": file("100\n"), "sys/fs/cgroup/pids/pids.current": file("40\n")}, 60},
		"the group is full":     {v1, fstest.MapFS{"sys/fs/cgroup/pids/pids.max": file("100\n"), "sys/fs/cgroup/pids/pids.current": file("140\n")}, 0},
		"the system":            {plain, fstest.MapFS{"proc/sys/kernel/threads-max": file("1000\n")}, 300},
		"the system's numbers":  {plain, fstest.MapFS{"proc/sys/kernel/pid_max": file("1100\n")}, 400},
		"the user":              {plain, fstest.MapFS{"proc/self/limits": file("Max processes             400                  400                  processes \n"), "proc/1/status": status(0, 50, none), "proc/7/status": status(1000, 30, none), "proc/8/status": status(1000, 5, none)}, 365},
		"the user may pass it":  {plain, fstest.MapFS{"proc/self/limits": file("Max processes             400                  400                  processes \n"), "proc/self/status": status(1000, 10, "0000000001000000")}, 9_990},
		"root is not bound":     {plain, fstest.MapFS{"proc/self/limits": file("Max processes             400                  400                  processes \n"), "proc/self/status": status(0, 10, none)}, 9_990},
		"what is no number":     {v2, fstest.MapFS{"sys/fs/cgroup/user/service/pids.max": file("many\n")}, 9_990},
		"no such group is seen": {v2, fstest.MapFS{}, 9_990},
	} {
		t.Run(name, func(t *testing.T) {
			root := maps.Clone(plain)
			if len(c.base) == 0 {
				root = fstest.MapFS{}
			}
			maps.Copy(root, c.base)
			maps.Copy(root, c.more)
			if got := allowed(root); got != c.want {
				t.Errorf("%d more threads are allowed, want %d", got, c.want)
			}
		})
	}
}

func TestThreadsStayBelow(t *testing.T) {
	for _, left := range []int{0, 10, 60, 100, 250, 300, 500, 1000, 10_000} {
		n := threadsOf(left)
		if n < fewestThreads || n > MaxThreads || n > fewestThreads && n+ownThreads > left {
			t.Errorf("with %d more threads %d calls may wait", left, n)
		}
	}
	if n := threadsOf(10_000); n != MaxThreads {
		t.Errorf("with all that Go allows %d calls may wait", n)
	}
	if n := Threads(); n < fewestThreads || n > MaxThreads {
		t.Errorf("here %d calls may wait", n)
	}
}
