// Package state is a host's state directory. It holds the host's lock, its sockets, its key for TLS, and the
// addresses where guests over TLS find it. It also has the places for what the host is about to do and for
// what it keeps. A host's own commands find the running host there.
//
// The directory belongs to one user. It must not lie in a directory that guests are served.
package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"capd/hostfile"
	"capd/vfs"
)

// Dir is the absolute path of a state directory, which need not exist. [Open] returns one.
type Dir string

// MaxSocketPath is how many bytes the path of a Unix socket may have on every system. (See unix(7); some
// systems allow 104 bytes with the NUL.)
const MaxSocketPath = 103

// Open returns the state directory at path, or the usual one for "". It makes nothing. It answers limit for a
// path that is too long for sockets, and invalid if there is no usual one.
func Open(path string) (d Dir, err error) {
	if path == "" {
		if path, _, err = Usual(); err != nil {
			return "", err
		}
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	d = Dir(path)
	if n := len(d.Control()) - MaxSocketPath; n > 0 {
		return "", vfs.Errorf(vfs.Limit, "the state directory's path is %d bytes too long for a socket; name a shorter one in State", n)
	}
	return d, nil
}

// Usual returns the default state directory: $XDG_STATE_HOME/capd or ~/.local/state/capd. home reports that
// it is the second, which does not depend on that variable.
func Usual() (path string, home bool, err error) {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" || !filepath.IsAbs(base) {
		home = true
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", false, vfs.Errorf(vfs.Invalid, "there is no home directory to keep state in; name one in State")
		}
		base = filepath.Join(dir, ".local", "state")
	}
	return filepath.Join(base, "capd"), home, nil
}

// Control is the path of the operator's socket. Whoever can connect to it controls the host.
func (d Dir) Control() string { return d.join("control.sock") }

// Guests is the path of the guests' socket, unless other users of the machine are let in.
func (d Dir) Guests() string { return d.join("guest.sock") }

// Journals holds the journals: what processes write down before they do it.
func (d Dir) Journals() string { return d.join("journal") }

// Materialized holds copies of trees for programs to work on.
func (d Dir) Materialized() string { return d.join("materialized") }

// Contents is the host's own content-addressed store.
func (d Dir) Contents() string { return d.join("cas") }

// Changes holds the changes of overlays that are there after a restart.
func (d Dir) Changes() string { return d.join("changes") }

// Caches holds what programs keep from one run to the next.
func (d Dir) Caches() string { return d.join("caches") }

// Shelf holds what changes displaced, so that they can be undone.
func (d Dir) Shelf() string { return d.join("shelf") }

// Scratch holds what guests keep for themselves, each in a directory.
func (d Dir) Scratch() string { return d.join("scratch") }

// Temps is where temporary directories of guests lie. It is removed when a host starts.
func (d Dir) Temps() string { return d.join("temps") }

// Roots holds the directories of roots that the host makes itself, by their ids.
func (d Dir) Roots() string { return d.join("roots") }

// Hooks holds the directories in which the programs of hooks run, by their names.
func (d Dir) Hooks() string { return d.join("hooks") }

// Database is the file of the host's durable state; see package database.
func (d Dir) Database() string { return d.join("state.db") }

func (d Dir) key() string  { return d.join("host.key") }
func (d Dir) ways() string { return d.join("listeners.json") }

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }

// Make makes the directory, for this user only. It answers denied for a directory that others may write to, or
// that another user could replace.
func (d Dir) Make() error {
	if err := MakeDir(string(d)); err != nil {
		return vfs.Errorf(vfs.Denied, "the state directory %s cannot be made: %v", d, Reason(err))
	}
	fi, err := os.Stat(string(d))
	if err != nil {
		return d.Unusable(err)
	}
	if !Private(fi) {
		return vfs.Errorf(vfs.Denied, "others may write to the state directory %s; name one that does not exist, or is yours alone, in State", d)
	}
	if err := d.alone(); err != nil {
		return err
	}
	if at := Replaceable(string(d)); at != "" {
		return vfs.Errorf(vfs.Denied, "other users may change %s, and replace the state directory %s; name another in State", at, d)
	}
	return nil
}

// alone answers denied if others may write to a directory in d. A host does what it finds there in a journal.
func (d Dir) alone() error {
	all, err := os.ReadDir(string(d))
	if err != nil {
		return d.Unusable(err)
	}
	for _, e := range all {
		if fi, err := e.Info(); err == nil && fi.IsDir() && !Private(fi) {
			return vfs.Errorf(vfs.Denied, "others may write to %s in the state directory; look at what is there, and take that right away (chmod 700)", d.join(e.Name()))
		}
	}
	return nil
}

// MakeDir is os.MkdirAll for directories that only this user can use and that survive a power cut.
func MakeDir(dir string) error {
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
		if err := hostfile.SyncDir(at); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// Removed is the suffix of a directory's name while [RemoveDir] removes the directory. Whoever finds such a
// directory after a crash removes it.
const Removed = ".removed"

// RemoveDir removes a directory with what is in it. After a crash it is wholly there or wholly gone.
func RemoveDir(dir string) error {
	if err := os.Rename(dir, dir+Removed); err != nil {
		return err
	}
	return errors.Join(hostfile.SyncDir(filepath.Dir(dir)), os.RemoveAll(dir+Removed))
}

// Unusable returns the error for a state directory that cannot be used because of err: denied.
func (d Dir) Unusable(err error) error {
	return vfs.Errorf(vfs.Denied, "the state directory %s cannot be used: %v", d, Reason(err))
}

// Lock makes the directory and takes it for this process, until unlock is called or the process ends. It
// answers busy when a host is running there.
func (d Dir) Lock() (unlock func(), err error) {
	if err := d.Make(); err != nil {
		return nil, err
	}
	f, err := Take(d.join("lock"))
	switch {
	case err == vfs.Busy:
		return nil, vfs.Errorf(vfs.Busy, "a host runs with the state directory %s already; end it, or name another in State", d)
	case err != nil:
		return nil, d.Unusable(err)
	}
	return func() { f.Close() }, nil
}

// Take takes the file at path for its caller until the file that it returns is closed or the process ends. It makes
// the file if it is missing. It answers [vfs.Busy] when another open file has the lock. Whoever has taken a file may
// remove it.
func Take(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if ok, _ := hostfile.TryLock(f, true); !ok {
			f.Close()
			return nil, vfs.Busy
		}
		if hostfile.IsAt(f, path) {
			return f, nil
		}
		f.Close() // whoever had it has just removed it
	}
}

// AllUnsynced holds what Unsynced makes.
func (d Dir) AllUnsynced() string { return d.join("unsynced") }

// Unsynced makes a new directory for what could not be synced back to where it came from. It stays until
// somebody removes it.
func (d Dir) Unsynced() (string, error) {
	all := d.AllUnsynced()
	if err := os.MkdirAll(all, 0o700); err != nil {
		return "", d.Unusable(err)
	}
	return os.MkdirTemp(all, time.Now().Format("20060102-150405-"))
}

// Reason returns what went wrong without the path, for a message that names it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
