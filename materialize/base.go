package materialize

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"capd/hostfile"
)

// Base is the private directory in which trees are materialized. Each tree is a
// directory there, beside a file that its process keeps locked.
type Base struct {
	path string // absolute
	root *os.Root
}

// The files of a tree in a Base. A tree's name has 32 hexadecimal digits. Its lock file
// has the same name with this suffix.
const (
	ownerSuffix = ".owner"
	nameDigits  = 32
	treeName    = "tree" // the tree itself, in the directory of that name
)

// OpenAmbient opens the directory base with the process's own authority. If base is
// missing it makes it, with its parents. Only the process's user may enter it. It
// removes trees that dead processes left. Errors are for the host and name paths.
func OpenAmbient(base string) (*Base, error) {
	path, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	b := &Base{path: path, root: root}
	if err := b.private(); err != nil {
		root.Close()
		return nil, err
	}
	if err := b.sweep(); err != nil {
		root.Close()
		return nil, err
	}
	return b, nil
}

// private checks that only its user may enter the directory.
func (b *Base) private() error {
	info, err := b.root.Stat(".")
	if err != nil {
		return err
	}
	if !own(info) {
		return &fs.PathError{Op: "materialize", Path: b.path, Err: errors.New("the directory belongs to another user")}
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	return b.root.Chmod(".", 0o700)
}

// Close closes the directory. Trees stay until they are closed themselves.
func (b *Base) Close() error { return b.root.Close() }

// place is the directory of one tree of this process.
type place struct {
	root  *os.Root // of the base
	name  string
	owner *os.File // locked
	once  sync.Once
	err   error
}

// claim makes a directory with a new name and locks its lock file. If a sweep removes
// it before it is locked, claim takes another name.
func (b *Base) claim() (*place, error) {
	root, err := b.root.OpenRoot(".") // outlives the Base
	if err != nil {
		return nil, err
	}
	for range 16 {
		var digits [nameDigits / 2]byte
		rand.Read(digits[:])
		name := hex.EncodeToString(digits[:])
		owner, err := lockOwner(root, name, os.O_CREATE|os.O_EXCL)
		if errors.Is(err, errOwned) || errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			p := &place{root: root, name: name, owner: owner}
			if err = root.Mkdir(name, 0o700); err == nil {
				err = root.Mkdir(name+"/"+treeName, 0o700)
			}
			if err == nil {
				return p, nil
			}
			err = errors.Join(err, p.release())
		}
		root.Close()
		return nil, err
	}
	root.Close()
	return nil, errOwned
}

var errOwned = errors.New("another process is using it")

// lockOwner opens and locks the lock file of name. It answers errOwned when another
// process holds the lock.
func lockOwner(root *os.Root, name string, flag int) (*os.File, error) {
	f, err := root.OpenFile(name+ownerSuffix, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := hostfile.TryLock(f, true)
	if err == nil && ok {
		var mine, there os.FileInfo
		if mine, err = f.Stat(); err == nil {
			there, err = root.Lstat(name + ownerSuffix)
		}
		if err == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	f.Close()
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = errOwned
	}
	return nil, err
}

// release removes the directory with everything in it, and then its lock file.
func (p *place) release() error {
	p.once.Do(func() {
		p.err = remove(p.root, p.name, p.owner)
		p.root.Close()
	})
	return p.err
}

// remove removes name, whose lock is held. What cannot be removed is left for the next
// sweep.
func remove(root *os.Root, name string, owner *os.File) error {
	err := hostfile.Erase(root, name)
	if hostfile.OpenFilesStay {
		owner.Close()
	}
	if err == nil {
		err = root.Remove(name + ownerSuffix)
	}
	owner.Close()
	return err
}

// sweep removes the trees of dead processes.
func (b *Base) sweep() error {
	dir, err := b.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		name = strings.TrimSuffix(name, ownerSuffix)
		if !isName(name) {
			continue
		}
		owner, err := lockOwner(b.root, name, os.O_CREATE)
		if err == nil {
			err = remove(b.root, name, owner)
		}
		if err != nil && !errors.Is(err, errOwned) && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// isName reports whether name has the form of a tree's name.
func isName(name string) bool {
	b, err := hex.DecodeString(name)
	return err == nil && len(b) == nameDigits/2 && strings.ToLower(name) == name
}
