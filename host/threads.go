package host

import (
	"io/fs"
	"math"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// MaxThreads is the most calls that may wait in the kernel at once, for all guests
// together. The system may allow fewer.
const MaxThreads = 256

// ownThreads is how many more threads the process needs: those of Go's runtime, of the
// operator's calls, and of closing files.
const ownThreads = 48

// goThreads is how many threads a Go process may have before its runtime ends it; see
// [debug.SetMaxThreads]. It is not changed here.
const goThreads = 10_000

// fewestThreads is how many calls may wait in the kernel even if the system allows fewer.
// With less, nothing can be served.
const fewestThreads = 8

// Threads returns how many calls may wait in the kernel at once, for all guests together.
// It is [MaxThreads] at most, and less when the system allows the process few threads: a
// process that cannot start a thread it needs is ended. On Linux the system's limits are
// RLIMIT_NPROC, if it binds this user, pids.max of each control group (v1 or v2) of the
// process, threads-max and pid_max. Threads takes the least that is left of them now, and
// leaves a quarter of it to others. A limit that cannot be read is ignored.
func Threads() int { return threadsOf(allowedThreads()) }

// threadsOf is Threads when left more threads are allowed.
func threadsOf(left int) int {
	return min(max((left-ownThreads-runtime.GOMAXPROCS(0))*3/4, fewestThreads), MaxThreads)
}

// allowed returns how many more threads a process may have, by the system's files below
// root, the / of a Linux system.
func allowed(root fs.FS) int {
	s := system{root}
	left := goThreads - s.status("Threads:")
	left = min(left, s.processes(), s.kernel())
	for _, dir := range s.groups() {
		if most, ok := s.number(path.Join(dir, "pids.max")); ok {
			now, _ := s.number(path.Join(dir, "pids.current"))
			left = min(left, most-now)
		}
	}
	return max(left, 0)
}

// system reads what a Linux system says about itself in files.
type system struct{ root fs.FS }

// unlimited stands for no limit.
const unlimited = math.MaxInt32

func (s system) text(name string) string {
	b, err := fs.ReadFile(s.root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return string(b)
}

// number returns the number that a file holds. It is false when that is no number.
func (s system) number(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s.text(name)))
	return min(n, unlimited), err == nil
}

// status returns a number of /proc/self/status, 0 when it is not there.
func (s system) status(key string) int {
	n, _ := strconv.Atoi(field(s.text("/proc/self/status"), key, 0))
	return n
}

// field returns field n after key, of the line of text that begins with key, or "".
func field(text, key string, n int) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			if fields := strings.Fields(rest); len(fields) > n {
				return fields[n]
			}
		}
	}
	return ""
}

// processes returns what is left of RLIMIT_NPROC, which counts the threads of all
// processes of a user. It does not bind root, nor a process with one of two capabilities;
// see passes.
func (s system) processes() int {
	most, err := strconv.Atoi(field(s.text("/proc/self/limits"), "Max processes", 0))
	if err != nil || s.passes() {
		return unlimited
	}
	uid := field(s.text("/proc/self/status"), "Uid:", 0)
	used := 0
	all, _ := fs.ReadDir(s.root, "proc")
	for _, e := range all {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		status := s.text(path.Join("proc", e.Name(), "status"))
		if field(status, "Uid:", 0) == uid {
			n, _ := strconv.Atoi(field(status, "Threads:", 0))
			used += n
		}
	}
	return most - used
}

// passes reports whether such limits do not bind the process: it is root, or has
// CAP_SYS_ADMIN or CAP_SYS_RESOURCE.
func (s system) passes() bool {
	const admin, resource = 1 << 21, 1 << 24
	status := s.text("/proc/self/status")
	caps, _ := strconv.ParseUint(field(status, "CapEff:", 0), 16, 64)
	return caps&(admin|resource) != 0 || field(status, "Uid:", 0) == "0"
}

// kernel returns what is left of the limits of the whole system.
func (s system) kernel() int {
	left := unlimited
	_, all, _ := strings.Cut(field(s.text("/proc/loadavg"), "", 3), "/") // running/existing
	used, _ := strconv.Atoi(all)
	for _, name := range []string{"threads-max", "pid_max"} {
		if most, ok := s.number("/proc/sys/kernel/" + name); ok {
			left = min(left, most-used)
		}
	}
	return left
}

// groups returns the directories of the process's control groups that count threads, up
// to the one that is seen as the root.
func (s system) groups() (dirs []string) {
	for line := range strings.Lines(s.text("/proc/self/cgroup")) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		var mount, top string
		switch {
		case has(controllers, "pids"):
			mount, top = s.mounted("cgroup", "pids")
		case id == "0":
			mount, top = s.mounted("cgroup2", "")
		}
		if mount == "" {
			continue
		}
		below := strings.TrimPrefix(path.Join("/", strings.TrimPrefix(group, top)), "/")
		for ; below != "" && below != "."; below = path.Dir(below) {
			dirs = append(dirs, path.Join(mount, below))
		}
		dirs = append(dirs, mount)
	}
	return dirs
}

// mounted returns where a control group file system of that kind with controller ("" for
// any) is mounted, and which group is its root.
func (s system) mounted(kind, controller string) (mount, top string) {
	for line := range strings.Lines(s.text("/proc/self/mountinfo")) { // see proc_pid_mountinfo(5)
		before, after, _ := strings.Cut(line, " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if len(b) > 4 && len(a) > 2 && a[0] == kind && (controller == "" || has(a[2], controller)) {
			return b[4], b[3]
		}
	}
	return "", ""
}

func has(list, word string) bool { return slices.Contains(strings.Split(list, ","), word) }
