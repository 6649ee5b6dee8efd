package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"capd/vfs"
)

// stateFlag names the directory in which a host keeps its sockets, and its key for
// TLS. Its commands find it there.
type stateFlag struct {
	State string `env:"CAPD_STATE" placeholder:"DIR" help:"The host's state directory (default: $$CAPD_STATE, $$XDG_STATE_HOME/capd, or ~/.local/state/capd)."`
}

// state is a host's state directory.
type state struct {
	dir   string
	usual bool // where the host's commands look by themselves, in any environment
}

// maxSocketPath is the longest path that a Unix socket can have everywhere
// (unix(7); 104 with the NUL on some systems).
const maxSocketPath = 103

// open returns the state directory, which need not be there.
func (f stateFlag) open() (state, error) {
	dir, usual := f.State, false
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" || !filepath.IsAbs(base) {
			usual = true
			home, err := os.UserHomeDir()
			if err != nil {
				return state{}, vfs.Errorf(vfs.Invalid, "there is no home directory to keep state in; name one with --state")
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "capd")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return state{}, err
	}
	s := state{dir, usual}
	if n := len(s.control()); n > maxSocketPath {
		return state{}, vfs.Errorf(vfs.Limit, "the state directory's path is %d bytes too long for a socket; name a shorter one with --state", n-maxSocketPath)
	}
	return s, nil
}

func (s state) control() string { return filepath.Join(s.dir, "control.sock") }
func (s state) guests() string  { return filepath.Join(s.dir, "guest.sock") }
func (s state) key() string     { return filepath.Join(s.dir, "host.key") }
func (s state) ways() string    { return filepath.Join(s.dir, "listeners.json") }

// make makes the directory, for its owner alone.
func (s state) make() error {
	if err := makeDir(s.dir); err != nil {
		return vfs.Errorf(vfs.Denied, "the state directory %s cannot be made: %v", s.dir, reason(err))
	}
	fi, err := os.Stat(s.dir)
	if err != nil {
		return s.unusable(err)
	}
	if !private(fi) {
		return vfs.Errorf(vfs.Denied, "others may write to the state directory %s; name one that does not exist, or is yours alone, with --state", s.dir)
	}
	return nil
}

// makeDir is os.MkdirAll for this user alone, of directories that would survive a
// power cut: what is kept in them is to survive one.
func makeDir(dir string) error {
	var changed []string // from dir upwards
	for at := filepath.Clean(dir); ; {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		at = filepath.Dir(at)
		changed = append(changed, at)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, at := range changed {
		if err := syncDir(at); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (s state) unusable(err error) error {
	return vfs.Errorf(vfs.Denied, "the state directory %s cannot be used: %v", s.dir, reason(err))
}

// lock makes the directory and takes it for this process. It answers busy when a
// host runs there.
func (s state) lock() (unlock func(), err error) {
	if err := s.make(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, s.unusable(err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, vfs.Errorf(vfs.Busy, "a host runs with the state directory %s already; end it, or name another with --state", s.dir)
	}
	return func() { f.Close() }, nil
}

// listen opens a socket that only this user can reach. The caller holds the
// lock, so that a socket that is there was left behind.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("a socket cannot be opened: %w", reason(err))
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("a socket cannot be opened: %w", reason(err))
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("a socket cannot be protected: %w", reason(err))
	}
	return l, nil
}

// reason is what went wrong, without the path that it went wrong with.
func reason(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
