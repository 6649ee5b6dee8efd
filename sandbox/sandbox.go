// Package sandbox runs an untrusted program in a private directory on Linux, and gives
// it access to nothing else. On other systems it answers unsupported.
//
// Two layers confine the program. Each would refuse most of what the other refuses.
// bubblewrap gives it its own namespaces: it sees the directory, the system's programs
// and libraries read-only, a few files of /etc, its own processes, and no network but
// an empty loopback. Inside them, and before the program begins, this package's [Init]
// gives up every privilege and adds Landlock, a seccomp filter and resource limits.
// Landlock allows writes only below the directory and the run's private ones. It allows
// no devices, no sockets or FIFOs in the tree, and no signals or abstract sockets to or
// from outside. A watcher outside stops the run when its memory, disk or time is used
// up.
//
// The program sees:
//
//	/capd/tree    Command.Tree; where it starts
//	/capd/home    HOME, private to the run except for Command.Caches
//	/capd/cache   caches, private to the run except for Command.Caches; HOME/.cache is a link to it
//	/tmp          TMPDIR, private to the run
//	/usr /bin …   the system's, read-only
//	Command.Bind  at the same path, read-only
//
// If root runs it, the program's user owns nothing on the host: it reads what everybody
// may read, and the tree is first given to that user. If another user runs it, the
// program runs as that user in a user namespace. A file that only the caller may read
// is then readable where it is bound.
//
// Not hidden are: the host's paths of mounts (in /proc/self/mountinfo), the kernel's
// version, the machine's load, and what listens on a socket below a bound path. With
// Command.Network the host's network is shared, its loopback included, and before ABI 6
// of Landlock also its abstract sockets. Not bounded are processor time and the
// kernel's own memory (socket buffers, page tables), except by the number of processes
// and descriptors. Memory and disk are checked at intervals, so a run may exceed a
// limit by what it uses in between.
//
// Errors of this package are for the host, and may name its paths.
package sandbox

import (
	"cmp"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/vfs"
)

// Paths in the sandbox that belong to the program.
const (
	TreePath  = "/capd/tree"
	HomePath  = "/capd/home"
	CachePath = "/capd/cache"
	tmpPath   = "/tmp"
	initPath  = "/capd/init"
)

// Command is a program to run, and what it may use.
type Command struct {
	Args []string // the program, found in the PATH of the sandbox, and its arguments
	Tree string   // the private directory of the host shown at TreePath
	Dir  string   // where the program starts: a slash-separated path below the tree; "" is the top

	// ReadOnly are slash-separated paths below the tree that cannot be written, moved
	// or replaced. Each must exist, and no link may be on the way. The directories on
	// the way become mount points: they cannot be moved either, and a rename into or
	// out of one is EXDEV.
	ReadOnly []string

	// Bind are absolute paths of the host, shown read-only at the same path. One that
	// ends in pkg/mod becomes GOMODCACHE.
	Bind []string

	// Caches are kept after the run. Whatever one program leaves in a cache, the next
	// program finds.
	Caches []Cache

	// Env has "NAME=value" entries, in addition to PATH, HOME, TMPDIR, LANG, LC_ALL,
	// TERM and the variables of private caches, which it overrides. Nothing else of the
	// caller's environment is passed on.
	Env []string

	Network bool // share the host's network; otherwise there is only a loopback
	Limits  Limits

	Stdin  io.Reader // nil is empty; see Run for one that blocks
	Stdout io.Writer // nil discards
	Stderr io.Writer

	// Scratch is a private directory of the host, on a disk, for home, caches and
	// temporary files. Run makes a directory in it and removes that again.
	Scratch string
}

// Cache is a private directory of the host that a program may write. It sees it at At,
// a path at or below CachePath, or below HomePath. No cache may be inside another.
type Cache struct{ At, Dir string }

// Limits bound a run. 0 means the default; see DefaultLimits.
type Limits struct {
	Processes int           // processes and threads at once; beyond it fork fails with EAGAIN
	Memory    int64         // bytes of anonymous and shared memory of all processes together; beyond it the run is stopped
	FileSize  int64         // bytes of one file; beyond it a write fails with EFBIG or SIGXFSZ
	OpenFiles int           // descriptors of one process
	Disk      int64         // bytes by which tree, caches and scratch may grow, at least 4096 for each entry; beyond it the run is stopped, or answers limit if it has just ended
	Time      time.Duration // real time since the program began; beyond it the run is stopped; 0 means no limit
}

// DefaultLimits are enough to build a large program.
var DefaultLimits = Limits{
	Processes: 1024,
	Memory:    8 << 30,
	FileSize:  2 << 30,
	OpenFiles: 4096,
	Disk:      16 << 30,
}

func (l Limits) orDefault() (Limits, error) {
	if l.Processes < 0 || l.Memory < 0 || l.FileSize < 0 || l.OpenFiles < 0 || l.Disk < 0 || l.Time < 0 {
		return l, vfs.Errorf(vfs.Invalid, "a limit is below 0; leave it 0 for the default")
	}
	l.Processes = cmp.Or(l.Processes, DefaultLimits.Processes)
	l.Memory = cmp.Or(l.Memory, DefaultLimits.Memory)
	l.FileSize = cmp.Or(l.FileSize, DefaultLimits.FileSize)
	l.OpenFiles = cmp.Or(l.OpenFiles, DefaultLimits.OpenFiles)
	l.Disk = cmp.Or(l.Disk, DefaultLimits.Disk)
	return l, nil
}

// Confinement is what confines programs on this machine.
type Confinement struct {
	Bubblewrap string // its version
	Landlock   int    // the kernel's ABI; 0 if there is none
}

// Available answers unsupported if [Run] would, and says what is missing and what to do
// about it.
func Available() error {
	c, err := Inspect()
	if err != nil {
		return err
	}
	return c.enough()
}

// enough answers unsupported when a layer is missing.
func (c Confinement) enough() error {
	if c.Landlock == 0 {
		return vfs.Errorf(vfs.Unsupported, "the kernel has no Landlock of ABI %d or later; use Linux 5.19 or later with landlock in its lsm= list", minLandlock)
	}
	return nil
}

// minLandlock is the first ABI that allows renames between directories.
const minLandlock = 2

// check answers invalid for a command that can never run. Otherwise it returns it with
// all limits and absolute paths.
func (c Command) check() (Command, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return c, vfs.Errorf(vfs.Invalid, "there is no program to run; name one")
	}
	for _, s := range slices.Concat(c.Args, c.Env) {
		if strings.ContainsRune(s, 0) {
			return c, vfs.Errorf(vfs.Invalid, "an argument or a variable holds NUL")
		}
	}
	for _, v := range c.Env {
		if name, _, found := strings.Cut(v, "="); !found || name == "" {
			return c, vfs.Errorf(vfs.Invalid, "%q is not of the form NAME=value", vfs.Printable(v))
		}
	}
	if err := checkCaches(c.Caches); err != nil {
		return c, err
	}
	for _, dir := range []string{c.Tree, c.Scratch} {
		if !filepath.IsAbs(dir) {
			return c, vfs.Errorf(vfs.Invalid, "the tree and the scratch directory must be absolute paths")
		}
	}
	below := c.ReadOnly
	if c.Dir != "" {
		below = append([]string{c.Dir}, below...)
	}
	for _, p := range below {
		if _, err := vfs.SplitPath(p); err != nil {
			return c, err
		}
	}
	bind := make([]string, len(c.Bind))
	for i, p := range c.Bind {
		if err := checkBind(p); err != nil {
			return c, err
		}
		bind[i] = path.Clean(p)
	}
	c.Bind = bind
	var err error
	c.Limits, err = c.Limits.orDefault()
	return c, err
}

// checkCaches answers invalid for caches that cannot be shown.
func checkCaches(all []Cache) error {
	for i, cache := range all {
		switch {
		case !filepath.IsAbs(cache.Dir):
			return vfs.Errorf(vfs.Invalid, "the directory of a cache must be an absolute path")
		case path.Clean(cache.At) != cache.At || cache.At == HomePath || !within(cache.At, CachePath) && !within(cache.At, HomePath):
			return vfs.Errorf(vfs.Invalid, "a cache is at or below %s, or below %s, and not at %s", CachePath, HomePath, vfs.Printable(cache.At))
		}
		for _, other := range all[:i] {
			if within(cache.At, other.At) || within(other.At, cache.At) {
				return vfs.Errorf(vfs.Invalid, "%s and %s are caches, and one is in the other; name one of them", vfs.Printable(other.At), vfs.Printable(cache.At))
			}
		}
	}
	return nil
}

// never are paths that may not be bound, nor anything below them. They belong to the
// sandbox, or are ways to reach the host.
var never = []string{"/capd", "/proc", "/sys", "/dev", "/run", "/var/run", "/etc/shadow", "/etc/gshadow"}

func checkBind(p string) error {
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return vfs.Errorf(vfs.Invalid, "a bound path must be absolute")
	}
	p = path.Clean(p)
	if p == tmpPath {
		return vfs.Errorf(vfs.Invalid, "a run has its own %s; bind something narrower", tmpPath)
	}
	for _, n := range never {
		if within(p, n) || within(n, p) {
			return vfs.Errorf(vfs.Invalid, "%s holds or is part of %s, which a sandbox cannot be shown; bind something narrower", vfs.Printable(p), n)
		}
	}
	return nil
}

// within reports whether p is dir or below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}
