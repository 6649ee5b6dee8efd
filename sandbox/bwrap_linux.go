package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"capd/vfs"
)

// shmBytes bounds /dev/shm, memory that the watcher does not see.
const shmBytes = 64 << 20

// mounts are arguments of bubblewrap.
type mounts []string

// maxMounts is how many arguments bubblewrap takes, without those of its command line.
const maxMounts = 9000 - 16

// file returns m as a file for bubblewrap to read. This keeps the host's paths out of
// its command line, which the program sees in /proc/1. It answers limit for more than
// maxMounts.
func (m mounts) file() (*os.File, error) {
	if len(m) > maxMounts {
		return nil, vfs.Errorf(vfs.Limit, "too many paths to bind or to keep read-only; name directories above them")
	}
	var text []byte
	for _, arg := range m {
		if strings.ContainsRune(arg, 0) {
			return nil, vfs.Errorf(vfs.Invalid, "a path of the sandbox holds NUL")
		}
		text = append(append(text, arg...), 0)
	}
	fd, err := unix.MemfdCreate("arguments", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "arguments")
	_, err = f.Write(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// namespaces returns the arguments that separate a program of u's from the host.
func namespaces(u user, network bool) mounts {
	m := mounts{
		"--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox",
		"--new-session", "--die-with-parent", "--cap-drop", "ALL",
	}
	if u.switched {
		m = append(m, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID") // until Init has used them
	} else {
		m = append(m, "--unshare-user", "--disable-userns", "--uid", strconv.Itoa(u.uid), "--gid", strconv.Itoa(u.gid))
	}
	if !network {
		m = append(m, "--unshare-net")
	}
	return m
}

// system shows the host's programs and libraries.
func (m *mounts) system() {
	for _, dir := range systemDirs {
		if to, err := os.Readlink(dir); err == nil {
			*m = append(*m, "--symlink", to, dir)
		} else if info, err := os.Stat(dir); err == nil && info.IsDir() {
			m.show(dir, dir)
		}
	}
	*m = append(*m, "--proc", "/proc", "--dev", "/dev",
		"--perms", "1777", "--size", strconv.Itoa(shmBytes), "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
}

// show binds the host's path from, read-only.
func (m *mounts) show(from, at string) {
	m.parents(at)
	*m = append(*m, "--ro-bind", from, at)
}

// give binds the host's path from, writable.
func (m *mounts) give(from, at string) {
	m.parents(at)
	*m = append(*m, "--bind", from, at)
}

// parents makes the directories above a path, accessible to everybody.
func (m *mounts) parents(at string) {
	var up []string
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		up = append(up, dir)
	}
	for _, dir := range slices.Backward(up) {
		*m = append(*m, "--perms", "0755", "--dir", dir)
	}
}

// ofEtc is what programs need of /etc and may see: where libraries, certificates and
// alternatives are, and the names of numbers.
var ofEtc = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "os-release", "localtime",
	"ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs", "pki/tls/openssl.cnf", "pki/ca-trust/extracted", "ca-certificates",
	"protocols", "services", "mime.types", "debian_version", "java-*",
}

// onNetwork is what is also shown of /etc with the host's network.
var onNetwork = []string{"resolv.conf", "hosts", "gai.conf"}

// etc shows the part of /etc that programs need, and made, a directory of files made
// for the run.
func (m *mounts) etc(made string, network bool) {
	names := ofEtc
	if network {
		names = slices.Concat(names, onNetwork)
	}
	for _, name := range names {
		found, _ := filepath.Glob("/etc/" + name)
		for _, at := range found {
			if from, err := filepath.EvalSymlinks(at); err == nil {
				m.show(from, at)
			}
		}
	}
	files, _ := filepath.Glob(made + "/*")
	for _, from := range files {
		m.show(from, "/etc/"+filepath.Base(from))
	}
}

// makeEtc writes the files of /etc that differ from the host's into dir.
func makeEtc(dir string, u user, network bool) error {
	files := map[string]string{
		"passwd":        fmt.Sprintf("root:x:0:0:root:/root:/bin/false\n%s:x:%d:%d::%s:/bin/sh\n", userName, u.uid, u.gid, HomePath),
		"group":         fmt.Sprintf("root:x:0:\n%s:x:%d:\n", userName, u.gid),
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	}
	if !network {
		files["hosts"] = "127.0.0.1 localhost sandbox\n::1 localhost\n"
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil { // despite the umask
			return err
		}
	}
	return nil
}

// bind shows the host's paths that the caller named.
func (m *mounts) bind(paths []string) error {
	for _, at := range paths {
		from, err := filepath.EvalSymlinks(at)
		if errors.Is(err, fs.ErrNotExist) {
			return vfs.Errorf(vfs.NotFound, "there is no %s to bind", vfs.Printable(at))
		}
		if err != nil {
			return err
		}
		if err := checkBind(from); err != nil {
			return err
		}
		m.show(from, at)
	}
	return nil
}

// tree shows dir at TreePath, with its readOnly paths. The directories above those
// become mount points, which the kernel does not let anybody move.
func (m *mounts) tree(dir string, readOnly []string) error {
	m.give(dir, TreePath)
	var locked, pinned []string
	for _, p := range readOnly {
		if err := inTree(dir, p); err != nil {
			return err
		}
		above := func(other string) bool { return other != p && within(p, other) }
		if slices.ContainsFunc(readOnly, above) {
			continue
		}
		locked = append(locked, p)
		for up := path.Dir(p); up != "."; up = path.Dir(up) {
			pinned = append(pinned, up)
		}
	}
	slices.Sort(pinned) // parents first
	for _, p := range slices.Compact(pinned) {
		*m = append(*m, "--bind", filepath.Join(dir, p), TreePath+"/"+p)
	}
	for _, p := range locked {
		*m = append(*m, "--ro-bind", filepath.Join(dir, p), TreePath+"/"+p)
	}
	return nil
}

// inTree answers notFound unless p is below dir, and outside when a link is on the way.
func inTree(dir, p string) error {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, p, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return vfs.At(p, vfs.Errorf(vfs.NotFound, "nothing in the tree has this path, so it cannot be kept read-only"))
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return vfs.At(p, vfs.Errorf(vfs.Outside, "a link or another mount is on the way; use the path that it leads to"))
	case err != nil:
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return vfs.At(p, vfs.Errorf(vfs.NotRegular, "only files and directories can be kept read-only"))
	}
	return nil
}

// Inspect returns what confines programs that [Run] runs on this machine. It answers
// unsupported when bubblewrap is missing or does not work, and says what to do about
// it.
func Inspect() (Confinement, error) {
	bwrap, err := findBwrap()
	if err != nil {
		return Confinement{}, err
	}
	if _, found := auditArch[runtime.GOARCH]; !found {
		return Confinement{}, errNoFilter
	}
	c := Confinement{Landlock: landlockABI()}
	out, err := exec.Command(bwrap, "--version").Output()
	if err != nil {
		return c, vfs.Errorf(vfs.Unsupported, "bubblewrap does not start; install it again")
	}
	c.Bubblewrap = strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")
	probe := exec.Command(bwrap, append(namespaces(chooseUser(), false), "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true")...)
	if out, err := probe.CombinedOutput(); err != nil {
		return c, vfs.Errorf(vfs.Unsupported, "bubblewrap %s cannot make a sandbox here (%s); it needs version 0.8; for root CAP_SYS_ADMIN, which a container may lack; for anybody else a kernel that lets users make namespaces: see user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns in sysctl",
			c.Bubblewrap, firstLine(string(out), err.Error()))
	}
	return c, nil
}

func findBwrap() (string, error) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return "", vfs.Errorf(vfs.Unsupported, "bubblewrap is not installed; install it (Debian: apt install bubblewrap)")
	}
	return bwrap, nil
}

// firstLine returns the first line of text, or otherwise if text is empty.
func firstLine(text, otherwise string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return otherwise
	}
	return vfs.Printable(line)
}
