package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"capd/state"
	"capd/vfs"
)

// SocketMode says who may connect to the guests' socket. Connecting requires write permission
// (unix(7)).
type SocketMode os.FileMode

// UnmarshalText reads an octal number such as 0660.
func (m *SocketMode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || SocketMode(n).wrong() {
		return fmt.Errorf("%q is not a socket's mode: write 0660 for a group, 0666 for every user of this machine, or 0600", text)
	}
	*m = SocketMode(n)
	return nil
}

func (m SocketMode) wrong() bool { return m&^0o666 != 0 || m&0o600 != 0o600 }

// Socket says which other users of this machine may connect as guests. Its zero value lets in no
// others.
type Socket struct {
	Group string     // a group whose members are let in
	Mode  SocketMode // of the socket, such as 0o666 for every user; 0: 0o600, or 0o660 with a Group
	Dir   string     // a directory that others can reach; "": one is made in the directory for temporary files
}

// socket is the guests' socket. It is in the state directory, where only the owner can reach it, or
// for others in a directory of its own.
type socket struct {
	net.Listener
	path string
	lock *os.File // taken while s is open: one host at a time has its socket in a directory
	made string   // a directory that was made for the socket, and is removed with it
	note string   // for the person who starts the host
}

// open opens the guests' socket. The caller holds the state directory's lock.
func (o Socket) open(st state.Dir) (s *socket, err error) {
	if o == (Socket{}) {
		l, err := listenUnix(st.Guests())
		if err != nil {
			return nil, err
		}
		return &socket{Listener: l, path: st.Guests()}, nil
	}
	gid, mode, err := o.allowed()
	if err != nil {
		return nil, err
	}
	s = &socket{}
	defer func() {
		if err != nil {
			s.end()
			s = nil
		}
	}()
	if err := s.enter(o.directory(st), o.Dir == "", gid, mode); err != nil {
		return s, err
	}
	if fi, err := os.Lstat(s.path); err == nil && o.Dir == "" && fi.Mode()&os.ModeSocket == 0 { // in a directory that capd made
		os.Remove(s.path)
	}
	if s.Listener, err = listenUnix(s.path); err != nil {
		return s, err
	}
	if err := admit(s.path, gid, mode); err != nil {
		return s, vfs.Errorf(vfs.Denied, "the guests' socket cannot be given to group %s: %v; the host's user must be in the group", o.Group, state.Reason(err))
	}
	return s, nil
}

// allowed returns the group that may connect (-1: the user's own), and the socket's mode.
func (o Socket) allowed() (gid int, mode os.FileMode, err error) {
	gid, mode = -1, 0o600
	if o.Group != "" {
		if gid, err = groupID(o.Group); err != nil {
			return 0, 0, err
		}
		mode = 0o660
	}
	if o.Mode != 0 {
		mode = os.FileMode(o.Mode)
	}
	return gid, mode, nil
}

// directory returns the directory of a socket that others may use, or "" if none may. A user may have several hosts.
func (o Socket) directory(st state.Dir) string {
	if o == (Socket{}) {
		return ""
	}
	of := sha256.Sum256([]byte(st))
	dir := cmp.Or(o.Dir, filepath.Join(os.TempDir(), fmt.Sprintf("capd-%d-%x", os.Geteuid(), of[:4])))
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// enter finds or makes the directory for the socket. A directory that it makes lets through everybody
// whom the socket lets in. One that was there is not changed, unless it is own: the host's own choice.
func (s *socket) enter(dir string, own bool, gid int, mode os.FileMode) error {
	s.path = filepath.Join(dir, "guest.sock")
	if n := len(s.path) - state.MaxSocketPath; n > 0 {
		return vfs.Errorf(vfs.Limit, "the directory for the guests' socket is %d bytes too long for a socket; name a shorter one in Socket.Dir", n)
	}
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		s.made = dir
	case !errors.Is(err, fs.ErrExist):
		return vfs.Errorf(vfs.Denied, "the directory %s for the guests' socket cannot be made: %v; name another in Socket.Dir", dir, state.Reason(err))
	case own:
		s.made = dir // an earlier host left it behind
	}
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || !state.Private(fi) {
		s.made = ""
		return vfs.Errorf(vfs.Denied, "others may write to %s, or it is not yours, or it is not a directory; name another for the guests' socket in Socket.Dir", dir)
	}
	if at := state.Replaceable(dir); at != "" {
		return vfs.Errorf(vfs.Denied, "other users may change %s, and put a socket of theirs in place of the guests'; name another directory in Socket.Dir", at)
	}
	switch s.lock, err = state.Take(filepath.Join(dir, "guest.lock")); {
	case err == vfs.Busy:
		return vfs.Errorf(vfs.Busy, "a host has its guests' socket in %s already; name another directory in Socket.Dir", dir)
	case err != nil:
		return vfs.Errorf(vfs.Denied, "nothing can be written in %s: %v; name another directory for the guests' socket in Socket.Dir", dir, state.Reason(err))
	}
	if s.made != "" {
		through := os.FileMode(0o710)
		if mode&0o006 != 0 {
			through = 0o711
		}
		if err := admit(dir, gid, through); err != nil {
			return vfs.Errorf(vfs.Denied, "the directory %s cannot be given to the group: %v; the host's user must be in the group", dir, state.Reason(err))
		}
	}
	if shut := shutTo(dir, gid, mode); shut != "" {
		s.note = fmt.Sprintf("others cannot reach the guests' socket: %s does not let them through; see Socket.Dir", shut)
	}
	return nil
}

// admit sets a file's group, unless gid is -1, and its mode.
func admit(path string, gid int, mode os.FileMode) error {
	if gid >= 0 {
		if err := os.Chown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// shutTo returns dir or a directory above it that does not let through those whom the socket's mode
// lets in, or "".
func shutTo(dir string, gid int, mode os.FileMode) string {
	for at := dir; ; at = filepath.Dir(at) {
		fi, err := os.Stat(at)
		if err != nil {
			return at
		}
		perm := fi.Mode().Perm()
		if perm&0o001 == 0 && (mode&0o006 != 0 || perm&0o010 == 0 || !ofGroup(fi, gid)) {
			return at
		}
		if at == filepath.Dir(at) {
			return ""
		}
	}
}

// end removes the socket, and a directory that was made for it.
func (s *socket) end() {
	if s.Listener != nil { // otherwise a file at the path is not ours
		s.Close()
		os.Remove(s.path)
	}
	if s.lock != nil {
		os.Remove(s.lock.Name())
		s.lock.Close()
	}
	if s.made != "" {
		os.Remove(s.made)
	}
}

// listenUnix opens a socket that only this user can reach. The caller holds the lock, so a socket
// that exists already was left behind. It answers exists for anything else that is there.
func listenUnix(path string) (net.Listener, error) {
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode()&os.ModeSocket == 0 {
		return nil, vfs.Errorf(vfs.Exists, "%s is no socket; move it away, or name another directory", vfs.Printable(path))
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, vfs.Errorf(vfs.Denied, "the socket %s cannot be opened: %v", vfs.Printable(path), state.Reason(err))
	}
	l, err := bind(path)
	if err != nil {
		return nil, vfs.Errorf(vfs.Denied, "the socket %s cannot be opened: %v", vfs.Printable(path), listenReason(err))
	}
	if err := os.Chmod(path, 0o600); err != nil { // where bind does not set the mode
		l.Close()
		return nil, vfs.Errorf(vfs.Denied, "the socket %s cannot be protected: %v", vfs.Printable(path), state.Reason(err))
	}
	return l, nil
}

// bind opens a socket. On Linux nobody else can connect from the beginning: a socket in a directory gets the mode
// that its descriptor has.
func bind(path string) (net.Listener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return c.Control(protect) }}
	return lc.Listen(context.Background(), "unix", path)
}
