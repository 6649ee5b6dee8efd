package tests

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"capd/sandbox"
	"capd/vfs"
	"golang.org/x/sys/unix"
)

// escape is an attempt to get out of a sandbox. Its script prints GOT if it got
// something, and "tried" at its end, so that an early failure shows.
type escape struct {
	name   string
	script string
	change func(*sandbox.Command)
	code   vfs.Code // of a run that must be stopped
	stdin  func(*cell) *os.File
	check  func(*cell, outcome) string // returns what it got, as the host sees it
}

// inside returns a script that runs attackers[name].
func inside(name string, args ...string) string {
	return fmt.Sprintf("%s='%s' /capd/init", otherVar, strings.Join(append([]string{"attacker", name}, args...), "\n"))
}

// In a script HOST is the cell's directory, and SLEEP is how long a process sleeps
// that is looked for afterwards.
var escapes = []escape{
	{name: "private key", script: `cat HOST/home/.ssh/id_ed25519 ~/.ssh/id_ed25519 ~root/.ssh/* /home/*/.ssh/*; find / -name 'id_*' -type f -size -4k -exec cat {} +; grep -rs secret1 /tmp /capd /etc; echo tried`},
	{name: "shadow", script: `cat /etc/shadow /etc/gshadow /etc/shadow- && echo GOT; ls /etc/ssh /etc/ssl/private && echo GOT; echo tried`},
	{name: "home directories", script: `ls -A /root/* /home/* /root HOST && echo GOT; cd ~/../.. && ls root home mnt opt srv && echo GOT; cat ~/../../etc/shadow && echo GOT; echo tried`},
	{name: "environment of others", script: `for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ; done; env; cat /proc/1/cmdline | tr '\0' ' ' | grep secret; echo tried`},
	{name: "paths of the host", script: `tr '\0' '\n' < /proc/1/cmdline | grep -E 'HOST|^/(home|root|tmp)' && echo GOT; tr '\0' ' ' < /proc/1/cmdline | grep -q '^bwrap --args [0-9]* -- ' && echo tried`},
	{name: "processes of others", script: `[ $(ls -d /proc/[0-9]* | wc -l) -gt 8 ] && echo GOT; ls /proc/1/root/ /proc/1/cwd/ && echo GOT; cat /proc/1/root/HOST/outside/file /proc/1/cwd/HOST/outside/file; cat /proc/self/root/HOST/outside/file; echo tried`},
	{name: "ptrace", script: inside("ptrace")},
	{name: "kill", script: `trap '' TERM; kill -9 VICTIM && echo GOT; kill -9 1; kill -TERM -1; echo tried`},
	{name: "write outside", script: `for d in / /usr /usr/bin /usr/lib /etc /bin /lib /dev /dev/pts /sys /capd /var /proc /proc/sys/kernel HOST/bound; do
		echo evil > $d/capd-evil && echo GOT $d; done; mkdir -p HOST/outside; echo evil > HOST/outside/file; echo evil > HOST/outside/new; echo evil >> /etc/passwd && echo GOT; echo evil > /capd/init && echo GOT; echo tried`,
		check: func(c *cell, _ outcome) string {
			found, _ := filepath.Glob(c.path("outside/*"))
			for _, dir := range []string{"/usr", "/usr/bin", "/etc", "/dev", "/var"} {
				if _, err := os.Lstat(dir + "/capd-evil"); err == nil {
					found = append(found, dir)
				}
			}
			if len(found) != 1 || c.read("outside/file") != c.secret {
				return fmt.Sprint("wrote ", found)
			}
			return ""
		}},
	{name: "read-only path", change: func(c *sandbox.Command) { c.ReadOnly = []string{"kept/deep", "file"} },
		script: `echo evil > kept/deep/file && echo GOT; echo evil > kept/deep/new && echo GOT; rm -rf kept; mv kept other && echo GOT; mv kept/deep kept/other && echo GOT
		ln -sfn /tmp kept && [ -L kept ] && echo GOT; chmod 777 kept/deep && echo GOT; touch kept/deep/file && echo GOT; echo evil > file && echo GOT; mv file f && echo GOT; mv made file && echo GOT; ln file hard && echo GOT; rm -f file && echo GOT; echo tried`,
		check: func(c *cell, _ outcome) string {
			if kept, file := c.read("tree/kept/deep/file"), c.read("tree/file"); kept != "kept" || file != "file" {
				return fmt.Sprintf("changed them to %q, %q", kept, file)
			}
			return ""
		}},
	{name: "git hook", change: func(c *sandbox.Command) { c.ReadOnly = []string{".git"} },
		script: `echo evil > .git/hooks/pre-commit && echo GOT; mv .git x && echo GOT; mkdir -p .git/hooks/y && echo GOT; git config core.hooksPath /tmp && echo GOT; echo tried`},
	{name: "write through a link", script: `ln -s HOST/outside/file l; echo evil > l; ln -s HOST/outside d; echo evil > d/new && echo GOT; ln -s /usr u; echo evil > u/x && echo GOT; ln -s /proc/1/root r; cat r/HOST/outside/file; echo evil > r/HOST/outside/file && echo GOT; echo tried`,
		check: func(c *cell, _ outcome) string {
			if all, _ := os.ReadDir(c.path("outside")); len(all) != 1 || c.read("outside/file") != c.secret {
				return "wrote outside"
			}
			return ""
		}},
	{name: "mount, chroot, devices", script: inside("mounts") + `; mount -t proc proc /tmp && echo GOT; mount --bind / /tmp && echo GOT; chroot . sh && echo GOT; mknod z c 1 5 && echo GOT; ls -A . | grep -E '^(c|b|z|fifo|socket)$' && echo GOT`},
	{name: "namespaces", script: inside("namespaces") + `; unshare -U true && echo GOT; unshare -r -m true && echo GOT; nsenter -t 1 -m true && echo GOT`},
	{name: "kernel", script: inside("kernel") + `; dmesg && echo GOT; for f in /dev/kmsg /dev/mem /dev/vda /dev/sda /proc/kcore /proc/sysrq-trigger /sys/kernel; do cat $f && echo GOT $f; done; echo c > /proc/sysrq-trigger && echo GOT; echo x > /proc/sys/kernel/core_pattern && echo GOT`},
	{name: "network", script: inside("network", "TCP", "ABSTRACT", "HOST/socket") + `; [ -e /run ] && echo GOT; [ -e /var/run ] && echo GOT`},
	{name: "terminal", script: inside("terminal") + `; echo evil > /dev/tty && echo GOT; echo evil > /dev/console && echo GOT`, stdin: pseudoTerminal},
	{name: "fork bomb", change: func(c *sandbox.Command) { c.Limits.Processes = 100 }, script: inside("fork", "SLEEP"),
		check: func(c *cell, o outcome) string {
			var n int
			fmt.Sscanf(o.Out, "processes: %d", &n)
			if n > 100 || n < 10 {
				return fmt.Sprint(n, " processes")
			}
			return ""
		}},
	{name: "endless fork bomb", change: func(c *sandbox.Command) { c.Limits.Processes, c.Limits.Time = 50, 2*time.Second },
		script: `bash -c 'b() { b | b & b; }; b' 2>/dev/null; bash -c 'while :; do sleep SLEEP & done' 2>/dev/null`, code: vfs.Limit},
	{name: "memory", change: lessMemory, script: inside("memory", "alone"), code: vfs.Limit},
	{name: "memory of many", change: lessMemory, script: inside("memory", "children"), code: vfs.Limit},
	{name: "memory of nobody", change: lessMemory, script: inside("memory", "memfd") + ";" + inside("memory", "shm") + `; head -c 200000000 /dev/zero > /dev/shm/x && echo GOT; head -c 200000000 /dev/zero > /dev/x && echo GOT`},
	{name: "large file", change: func(c *sandbox.Command) { c.Limits.FileSize = 8 << 20 },
		script: `for d in . /tmp ~; do head -c 100000000 /dev/zero > $d/x && echo GOT; truncate -s 15T $d/s && echo GOT; fallocate -l 1G $d/f && echo GOT; find $d -size +8192k; done; rm -f x s f; echo tried`},
	{name: "full disk", change: lessDisk, script: `for i in $(seq 1000); do head -c 1000000 /dev/zero > /tmp/$i; done; sleep 60; echo GOT`, code: vfs.Limit},
	{name: "full tree", change: lessDisk, script: `mkdir fill; for i in $(seq 1000); do head -c 1000000 /dev/zero > fill/$i; done; sleep 60; echo GOT`, code: vfs.Limit,
		check: func(c *cell, _ outcome) string { os.RemoveAll(c.path("tree/fill")); return "" }},
	{name: "many small files", change: lessDisk, script: `i=0; while [ $i -lt 100000 ]; do : > /tmp/$i; i=$((i+1)); done; sleep 60; echo GOT`, code: vfs.Limit},
	{name: "deep directories", script: "cd /tmp;" + inside("nested") + "; sleep 60",
		code: vfs.Limit},
	{name: "set-user-id", script: `cp /usr/bin/id s; chmod 6755 s; ./s -u | grep -x 0 && echo GOT; for f in $(find /usr -xdev -perm -4000 2>/dev/null); do :; done; su -c true && echo GOT; echo id -u | newgrp | grep -x 0 && echo GOT; rm s; echo tried`},
	{name: "hard link", script: `ln HOST/bound/file l && echo GOT; ln /usr/bin/env e && echo GOT; ln /etc/passwd p && echo GOT; ln HOST/outside/file o && echo GOT; mv /usr/bin/env e && echo GOT; ln file /tmp/f && echo GOT; echo tried`},
	{name: "bound path", script: `echo evil > HOST/bound/file && echo GOT; echo evil > HOST/bound/new && echo GOT; rm -f HOST/bound/file && echo GOT; chmod 000 HOST/bound/file && echo GOT; mv HOST/bound HOST/b && echo GOT; ls HOST | grep -v -x bound && echo GOT; cat HOST/bound/../outside/file; echo tried`,
		check: func(c *cell, _ outcome) string {
			if all, _ := os.ReadDir(c.path("bound")); len(all) != 4 || c.read("bound/file") != "bound" {
				return "changed it"
			}
			return ""
		}},
	{name: "root's own in a bound path", script: `cat HOST/bound/root && echo GOT; ls -A HOST/bound/private && echo GOT; find HOST/bound -exec cat {} +; echo tried`},
	{name: "link below a bound path", script: `cat HOST/bound/out; cat HOST/bound/out/../outside/file; echo tried`},
	{name: "core", script: `ulimit -c unlimited; (kill -SEGV $(exec sh -c 'echo $PPID')); sh -c 'kill -SEGV $$'; ls | grep core && echo GOT; echo tried`},
	{name: "descriptors", script: inside("descriptors") + `; for i in 3 4 5 6 7 8 9 10 11 12; do cat <&$i; done; timeout 3 cat /proc/1/fd/* /proc/self/fd/[3-9]`},
	{name: "daemon", script: inside("daemon", "SLEEP")},
}

func lessMemory(c *sandbox.Command) { c.Limits.Memory = 256 << 20 }
func lessDisk(c *sandbox.Command)   { c.Limits.Disk = 32 << 20 }

// TestSandboxEscapes runs each escape as root and as a user. None gets anything,
// and no process is left.
func TestSandboxEscapes(t *testing.T) {
	t.Parallel()
	cells(t, func(c *cell) {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		ok(c, err)
		defer tcp.Close()
		abstract := "@capd-" + c.secret
		for _, name := range []string{abstract, c.path("socket")} {
			l, err := net.Listen("unix", name)
			ok(c, err)
			defer l.Close()
		}
		ok(c, os.Chmod(c.path("socket"), 0o777))
		ok(c, os.MkdirAll(c.path("tree/.git/hooks"), 0o777))
		ok(c, os.Symlink(c.path("outside/file"), c.path("bound/out")))
		ok(c, os.WriteFile(c.path("bound/root"), []byte(c.secret), 0o600))
		ok(c, os.Mkdir(c.path("bound/private"), 0o700))
		victim := exec.Command("sleep", "600")
		if c.uid != os.Getuid() {
			victim.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.uid), Gid: uint32(c.uid)}}
		}
		ok(c, victim.Start())
		defer func() { victim.Process.Kill(); victim.Wait() }()

		names := strings.NewReplacer("HOST", c.dir, "SLEEP", c.sleeping, "VICTIM", fmt.Sprint(victim.Process.Pid), "TCP", tcp.Addr().String(), "ABSTRACT", abstract)
		for _, e := range escapes {
			command := c.command
			command.Args = []string{"sh", "-c", names.Replace(e.script)}
			if e.change != nil {
				e.change(&command)
			}
			var stdin io.Reader
			if e.stdin != nil {
				stdin = e.stdin(c)
			}
			start := time.Now()
			o := c.run(command, stdin)
			loot := c.loot(e, o)
			if e.check != nil && loot == "" {
				loot = e.check(c, o)
			}
			if err := victim.Process.Signal(syscall.Signal(0)); err != nil {
				loot += "killed a process of the host"
			}
			if pids := c.sleepers(); len(pids) > 0 {
				loot += fmt.Sprint("left running: ", pids)
			}
			if loot != "" {
				c.Errorf("%s got %s\n%v", e.name, loot, o)
				continue
			}
			how := "nothing"
			if o.Err != "" {
				how += ", and was stopped: " + o.Err
			}
			c.Logf("attack %s: %s (%.1f s)", e.name, how, time.Since(start).Seconds())
		}
	})
}

// loot returns what an escape got, or that it did not run to its end, by its
// output.
func (c *cell) loot(e escape, o outcome) string {
	switch {
	case strings.Contains(o.Out, c.secret):
		return "the secret"
	case strings.Contains(o.Out, "GOT"):
		return "something"
	case o.Code != e.code:
		return fmt.Sprintf("%q, not %q", o.Code, e.code)
	case e.code == "" && !strings.Contains(o.Out, "tried"):
		return "nothing, without trying"
	}
	return ""
}

// cellsMade numbers the cells.
var cellsMade atomic.Int64

// sleepers returns the processes that the cell's sandboxes left behind: those that
// sleep for this cell's own time.
func (c *cell) sleepers() (pids []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if b, _ := os.ReadFile(name); string(b) == "sleep\x00"+c.sleeping+"\x00" {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// pseudoTerminal returns a terminal at which somebody types; see pts(4).
func pseudoTerminal(c *cell) *os.File {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	ok(c, err)
	c.Cleanup(func() { master.Close() })
	var unlock int32
	ok(c, syscallErr(unix.SYS_IOCTL, master.Fd(), unix.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock))))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	ok(c, err)
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	ok(c, err)
	c.Cleanup(func() { slave.Close() })
	return slave
}
