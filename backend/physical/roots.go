package physical

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// process is what all Stores of this process share. Two Stores may show the same file: they serve
// the same directory, or one serves a directory inside the other's. They lock the same name for it.
// So a change that is atomic for the guests of one is atomic for the guests of both.
var process struct {
	locks   nameLocks
	writing writing

	mu    sync.Mutex
	roots map[*Store]os.FileInfo // what each open Store serves
}

// location is where a Store's directory is.
type location struct {
	base  string // its path, as all Stores of this process have it
	outer int    // the length of the base of the outermost Store around it, which may be itself
}

// enroll finds the path of the served directory, which lockNames needs. dir is the path that it was
// opened by.
func (s *Store) enroll(dir string) error {
	root, err := s.top.Stat(".")
	if err != nil {
		return err
	}
	path, way, err := wayTo(dir) // may wait for the disk, so not under process.mu
	process.mu.Lock()
	defer process.mu.Unlock()
	base := fmt.Sprintf("?%p", s) // it was moved meanwhile, and its path is unknown
	if err == nil && os.SameFile(way[0], root) {
		base = strings.TrimSuffix(baseOf(path, way), "/")
	}
	s.where.Store(&location{base: base})
	if process.roots == nil {
		process.roots = map[*Store]os.FileInfo{}
	}
	process.roots[s] = root
	nest()
	return nil
}

func (s *Store) resign() {
	process.mu.Lock()
	defer process.mu.Unlock()
	delete(process.roots, s)
	nest()
}

// nest updates which Store lies in which. The caller holds process.mu.
func nest() {
	for s := range process.roots {
		at := s.where.Load()
		outer := len(at.base)
		for o := range process.roots {
			if base := o.where.Load().base; strings.HasPrefix(at.base+"/", base+"/") {
				outer = min(outer, len(base))
			}
		}
		if outer != at.outer {
			s.where.Store(&location{at.base, outer})
		}
	}
}

// wayTo returns the path of the directory dir without links, and the directories on the way: dir
// first, the file system's root last.
func wayTo(dir string) (path string, way []os.FileInfo, err error) {
	if path, err = filepath.Abs(dir); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	for at := path; err == nil; at = filepath.Dir(at) {
		fi, err := os.Stat(at)
		if err != nil {
			return "", nil, err
		}
		if way = append(way, fi); at == filepath.Dir(at) {
			break
		}
	}
	return path, way, err
}

// baseOf returns the path that Stores use for the directory at path. If another Store serves it, or a
// directory on the way to it, the result continues that Store's path. The two paths can differ, as
// with bind mounts. The caller holds process.mu.
func baseOf(path string, way []os.FileInfo) string {
	at := path
	for _, fi := range way {
		for s, served := range process.roots {
			if os.SameFile(fi, served) {
				return s.where.Load().base + filepath.ToSlash(path[len(strings.TrimSuffix(at, string(filepath.Separator))):])
			}
		}
		at = filepath.Dir(at)
	}
	return filepath.ToSlash(path)
}

// moved updates the paths of Stores after a directory of s was moved: of those that serve it or a
// directory inside it. The caller has locked both names.
func (s *Store) moved(from, to string) {
	process.mu.Lock()
	defer process.mu.Unlock()
	from, to = s.named(from), s.named(to)
	for other := range process.roots {
		if rest, ok := strings.CutPrefix(other.where.Load().base+"/", from+"/"); ok {
			other.where.Store(&location{base: strings.TrimSuffix(to+"/"+rest, "/")})
		}
	}
	nest()
}

// named returns the name of path that all Stores of this process use.
func (s *Store) named(path string) string { return s.where.Load().base + "/" + path }

// lockNames locks the names at paths for all Stores of this process.
func (s *Store) lockNames(paths ...string) (unlock func()) {
	for {
		at := s.where.Load()
		named := make([]string, len(paths))
		for i, path := range paths {
			named[i] = at.base + "/" + path
		}
		unlock := process.locks.lock(named, at.outer+1)
		if s.where.Load() == at {
			return unlock
		}
		unlock() // the Store was moved while this waited
	}
}

// Same reports whether s and o serve one directory, whatever it was opened by.
func (s *Store) Same(o *Store) bool {
	process.mu.Lock()
	defer process.mu.Unlock()
	a, b := process.roots[s], process.roots[o]
	return a != nil && b != nil && os.SameFile(a, b)
}
