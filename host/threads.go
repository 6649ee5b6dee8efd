package host

import (
	"io/fs"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// MaxThreads is how many calls may wait in the kernel at once, for all guests together,
// where the system allows that.
const MaxThreads = 256

// Threads the process needs beside: those of Go's runtime, of the operator's calls, and
// of what closes files.
const ownThreads = 48

// goThreads is how many a Go process may have before its runtime ends it; see
// [debug.SetMaxThreads], which stays as it is.
const goThreads = 10_000

// fewestThreads is how many calls may wait in the kernel whatever the system says: with
// fewer nothing can be served.
const fewestThreads = 8

// Threads returns how many calls may wait in the kernel at once, for all guests: at most
// [MaxThreads], and so many that the process, which is ended when it gets no thread that
// it needs, stays below what the system allows now. On Linux that is the least that is
// left of RLIMIT_NPROC, where it binds this user, of pids.max of each control group that the
// process is in, v1 or v2, and of threads-max and pid_max. A quarter of it is left to
// others. What cannot be read sets no limit.
func Threads() int { return threadsOf(allowedThreads()) }

// threadsOf is Threads where so many more threads are allowed.
func threadsOf(left int) int {
	return min(max((left-ownThreads-runtime.GOMAXPROCS(0))*3/4, fewestThreads), MaxThreads)
}

// allowed is how many more threads a process may have, by what the system tells at root,
// which is / of a Linux system.
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

// system is what a Linux system tells of itself in files.
type system struct{ root fs.FS }

// unlimited is a limit that is none.
const unlimited = math.MaxInt32

func (s system) text(name string) string {
	b, err := fs.ReadFile(s.root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return ""
	}
	return string(b)
}

// number is what a file says, and false when that is no number.
func (s system) number(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(s.text(name)))
	return min(n, unlimited), err == nil
}

// status is a number of /proc/self/status, 0 when it is not there.
func (s system) status(key string) int {
	n, _ := strconv.Atoi(field(s.text("/proc/self/status"), key, 0))
	return n
}

// field is field n, after key, of the line of text that begins with key; "" for none.
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

// processes is what is left of RLIMIT_NPROC, which counts the threads of all processes
// of a user. It does not bind root, or a process with one of two capabilities.
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

// passes reports whether the process is root, or may pass such limits: CAP_SYS_ADMIN,
// CAP_SYS_RESOURCE.
func (s system) passes() bool {
	const admin, resource = 1 << 21, 1 << 24
	status := s.text("/proc/self/status")
	caps, _ := strconv.ParseUint(field(status, "CapEff:", 0), 16, 64)
	return caps&(admin|resource) != 0 || field(status, "Uid:", 0) == "0"
}

// kernel is what is left of what the whole system may have.
func (s system) kernel() int {
	left := unlimited
	_, all, _ := strings.Cut(field(s.text("/proc/loadavg"), "", 3), "/") // running/there are
	used, _ := strconv.Atoi(all)
	for _, name := range []string{"threads-max", "pid_max"} {
		if most, ok := s.number("/proc/sys/kernel/" + name); ok {
			left = min(left, most-used)
		}
	}
	return left
}

// groups are the directories of the control groups that the process is in which count
// threads, up to the one that is seen as the root.
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

// mounted returns where a control group file system is mounted that has controller ("" for
// any), and which group is seen there as the root.
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

func has(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
