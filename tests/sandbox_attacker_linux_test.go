package tests

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This binary, inside the sandbox, does what a script cannot do.

func init() { others["attacker"] = attacker }

func attacker(args []string) {
	runtime.LockOSThread()
	attackers[args[0]](args[1:])
	fmt.Println("tried")
}

// got prints that an attack succeeded, if err is nil.
func got(err error, format string, args ...any) {
	if err == nil {
		fmt.Printf("GOT "+format+"\n", args...)
	}
}

func syscallErr(nr uintptr, args ...uintptr) error {
	args = append(args, 0, 0, 0, 0, 0, 0)
	if _, _, errno := syscall.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5]); errno != 0 {
		return errno
	}
	return nil
}

func textAt(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s + "\x00"))) }

var attackers = map[string]func(args []string){
	"ptrace": func([]string) {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range all {
			pid, _ := strconv.Atoi(filepath.Base(p))
			if pid == os.Getpid() || pid == os.Getppid() && pid != 1 {
				continue // its own shell does not count
			}
			got(syscall.PtraceAttach(pid), "attached to %d", pid)
			buf := make([]byte, 8)
			local := []unix.Iovec{{Base: &buf[0], Len: 8}}
			_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			if !errors.Is(err, syscall.EFAULT) { // EFAULT: it can be read, but nothing is there
				got(err, "read %d", pid)
			}
			_, err = os.ReadFile(p + "/mem")
			got(err, "opened memory of %d", pid)
		}
	},
	"namespaces": func([]string) {
		for name, flag := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET} {
			got(syscallErr(unix.SYS_UNSHARE, flag), "a %s namespace", name)
			if pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD), 0, 0); errno == 0 {
				if pid == 0 {
					syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
				got(nil, "a clone in a %s namespace", name)
			}
			three := [11]uint64{uint64(flag)}
			if pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&three)), unsafe.Sizeof(three), 0); errno == 0 {
				if pid == 0 {
					syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
				got(nil, "a clone3 in a %s namespace", name)
			}
		}
		for _, ns := range []string{"/proc/1/ns/mnt", "/proc/1/ns/user", "/proc/self/ns/user"} {
			if f, err := os.Open(ns); err == nil {
				got(syscallErr(unix.SYS_SETNS, f.Fd(), 0), "into %s", ns)
			}
		}
	},
	"mounts": func(args []string) {
		os.Mkdir("m", 0o777)
		got(syscall.Mount("none", "m", "tmpfs", 0, ""), "a tmpfs")
		got(syscall.Mount("/", "m", "", syscall.MS_BIND, ""), "a bind mount")
		got(syscall.Mount("none", "/usr", "", syscall.MS_REMOUNT|syscall.MS_BIND, ""), "/usr to write")
		got(syscall.Unmount("/usr", syscall.MNT_DETACH), "/usr away")
		_, err := unix.Fsopen("tmpfs", 0)
		got(err, "fsopen")
		_, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE)
		got(err, "open_tree")
		got(syscall.PivotRoot(".", "."), "pivot_root")
		got(syscall.Chroot("."), "chroot")
		for name, mode := range map[string]uint32{"c": unix.S_IFCHR, "b": unix.S_IFBLK} {
			got(unix.Mknod(name, mode|0o666, int(unix.Mkdev(1, 3))), "a device %s", name)
			got(unix.Mknod("/tmp/"+name, mode|0o666, int(unix.Mkdev(254, 0))), "a device in /tmp %s", name)
		}
		got(unix.Mkfifo("fifo", 0o666), "a FIFO in the tree")
		_, err = net.Listen("unix", "socket")
		got(err, "a socket in the tree")
		_, _, err = unix.NameToHandleAt(unix.AT_FDCWD, "/usr", 0)
		if err == nil {
			_, err = unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), 0)
			got(err, "a file by its handle")
		}
	},
	"kernel": func([]string) {
		got(syscallErr(unix.SYS_BPF, 0, 0, 0), "bpf")
		got(syscallErr(unix.SYS_KEYCTL, 0, 0xfffffffd, 1), "a session keyring")
		got(syscallErr(unix.SYS_ADD_KEY, textAt("user"), textAt("k"), textAt("v"), 1, 0xfffffffc), "a key")
		got(syscallErr(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(new([120]byte)))), "io_uring")
		got(syscallErr(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(new([120]byte))), 0, 0xffffffffffffffff, 0xffffffffffffffff), "perf")
		got(syscallErr(unix.SYS_USERFAULTFD, 0), "userfaultfd")
		got(syscallErr(unix.SYS_SYSLOG, 3, uintptr(unsafe.Pointer(new([4096]byte))), 4096), "the kernel's log")
		got(syscall.Sethostname([]byte("evil")), "another host name")
		got(syscall.Reboot(syscall.LINUX_REBOOT_CMD_CAD_OFF), "reboot")
		got(unix.Setpriority(unix.PRIO_PROCESS, 0, -5), "a better priority")
		got(os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0), "another to be killed first")
		got(unix.Setuid(0), "uid 0")
		got(unix.Setgid(0), "gid 0")
		for what := range 16 {
			var l unix.Rlimit
			if unix.Getrlimit(what, &l) == nil && l.Max != unix.RLIM_INFINITY {
				l.Max++
				got(unix.Setrlimit(what, &l), "more of limit %d", what)
			}
		}
	},
	// args: a TCP address, an abstract and a path socket, all on the host
	"network": func(args []string) {
		const soon = 2 * time.Second
		for _, to := range [][2]string{{"tcp", args[0]}, {"tcp", "1.1.1.1:443"}, {"tcp", "169.254.169.254:80"}, {"unix", args[1]}, {"unix", args[2]}} {
			c, err := net.DialTimeout(to[0], to[1], soon)
			if err == nil {
				c.Close()
			}
			got(err, "%s %s", to[0], to[1])
		}
		for _, to := range []string{"127.0.0.53:53", "8.8.8.8:53"} {
			if c, err := net.DialTimeout("udp", to, soon); err == nil {
				c.SetDeadline(time.Now().Add(soon))
				c.Write(make([]byte, 12))
				_, err = c.Read(make([]byte, 512))
				got(err, "an answer of %s", to)
			}
		}
		names, err := net.LookupHost("example.org")
		got(err, "names %v", names)
		for name, family := range map[string]int{"vsock": unix.AF_VSOCK, "packet": unix.AF_PACKET, "alg": unix.AF_ALG, "bluetooth": unix.AF_BLUETOOTH} {
			_, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
			got(err, "a socket of %s", name)
		}
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)
		got(err, "a raw socket")
	},
	"terminal": func([]string) {
		for _, c := range "id\n" {
			b := byte(c)
			got(syscallErr(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&b))), "typed %q", c)
			got(syscallErr(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&b))), "typed %q with a high bit", c)
		}
		b := byte(3)
		got(syscallErr(unix.SYS_IOCTL, 0, unix.TIOCLINUX, uintptr(unsafe.Pointer(&b))), "pasted")
		got(syscallErr(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1), "the terminal as its own")
	},
	// args: for how long to sleep
	"fork": func(args []string) {
		n := 0
		for range 2000 {
			if exec.Command("sleep", args[0]).Start() != nil {
				break
			}
			n++
		}
		fmt.Println("processes:", n)
	},
	"memory": func(args []string) {
		switch args[0] {
		case "memfd":
			_, err := unix.MemfdCreate("m", 0)
			got(err, "a memfd")
		case "shm":
			_, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<30, unix.IPC_CREAT|0o600)
			got(err, "System V memory")
		case "children":
			for range 8 {
				c := exec.Command("/capd/init")
				c.Env = []string{otherVar + "=attacker\nmemory\nalone"}
				c.Start()
			}
			time.Sleep(time.Minute)
		case "alone":
			kept := [][]byte{}
			for range 16 { // 1 GiB in all
				b := make([]byte, 64<<20)
				for i := range len(b) / 4096 {
					b[i*4096] = 1
				}
				kept = append(kept, b)
			}
			time.Sleep(time.Minute)
			fmt.Println("GOT", len(kept)*64, "MiB")
		}
	},
	"nested": func([]string) {
		n := 0
		for range 3000 {
			if os.Mkdir("d", 0o777) != nil || os.Chdir("d") != nil {
				break
			}
			n++
		}
		os.Chmod(".", 0)
		fmt.Println("levels:", n)
	},
	// The process leaves its session, becomes an orphan, and ignores every signal
	// that can be ignored.
	"daemon": func(args []string) {
		c := exec.Command("setsid", "sh", "-c", "trap '' HUP INT TERM; (trap '' HUP INT TERM; while :; do sleep $1; done) & exit", "sh", args[0])
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Start()
		c.Wait()
	},
	"descriptors": func([]string) {
		all, _ := filepath.Glob("/proc/*/fd/*")
		for _, fd := range all {
			if strings.HasPrefix(fd, "/proc/thread-self") || strings.HasPrefix(fd, fmt.Sprintf("/proc/%d/", os.Getpid())) || strings.HasPrefix(fd, "/proc/self/") {
				continue
			}
			if info, err := os.Stat(fd); err == nil && info.Mode().IsRegular() {
				b, err := os.ReadFile(fd)
				got(err, "%s: %s", fd, b)
			}
		}
		for fd := 3; fd < 64; fd++ {
			b := make([]byte, 64)
			if n, err := syscall.Pread(fd, b, 0); err == nil && n > 0 {
				fmt.Printf("GOT descriptor %d: %s\n", fd, b[:n])
			}
		}
	},
}
