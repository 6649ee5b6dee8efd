package git

import "capd/vfs"

// Bounds of what can be committed.
const (
	// MaxDepth is how deep directories may be. Git's own lowest bound is 2048.
	MaxDepth = 1024
	// MaxFile is the size, in bytes, of the largest file. Git needs about that much
	// memory to add a file.
	MaxFile = 4 << 30
)

var (
	errDeep      = vfs.Errorf(vfs.Limit, "directories here may be at most %d deep", MaxDepth)
	errTooLong   = vfs.Errorf(vfs.Limit, "a file here may be at most %d GiB long", MaxFile>>30)
	errSubmodule = vfs.Errorf(vfs.ReadOnly, "nothing can be changed in this directory, and it stays where it is")
)

// CheckName answers invalid unless git accepts an entry of this kind called name. Git
// reserves names like .git, and accepts no link called .gitmodules.
func (s *Store) CheckName(name string, kind vfs.Kind) error {
	if isDotGit(name) || kind == vfs.LinkKind && isModules(name) {
		return vfs.ErrReserved
	}
	return nil
}

// CheckSize answers limit for a file that is longer than [MaxFile] bytes.
func (s *Store) CheckSize(size int64) error {
	if size > MaxFile {
		return errTooLong
	}
	return nil
}

// CheckDepth answers limit for a directory that is more than [MaxDepth] deep.
func (s *Store) CheckDepth(depth int) error {
	if depth > MaxDepth {
		return errDeep
	}
	return nil
}

// CheckDir answers readOnly for a directory of this store that is a submodule: neither
// it nor its entries can be changed.
func (s *Store) CheckDir(d vfs.Dir) error {
	here, err := s.present(d)
	if err == nil && here.submodule {
		err = errSubmodule
	}
	return err
}

// CheckEmpty answers notEmpty for a directory of this store that holds something whose
// name is too long to be shown.
func (s *Store) CheckEmpty(d vfs.Dir) error {
	here, err := s.present(d)
	if err == nil && len(here.long) > 0 {
		err = vfs.NotEmpty
	}
	return err
}

// present returns what d holds now. A directory of another store holds nothing.
func (s *Store) present(d vfs.Dir) (directory, error) {
	own, ok := d.(*dir)
	if !ok || own.at.store != s {
		return directory{tree: noTree}, nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return own.at.directory()
}
