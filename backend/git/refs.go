package git

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// refs reads the refs of a repository (gitrepository-layout(5): refs, packed-refs).
type refs struct {
	layout

	mu     sync.Mutex
	packed map[string]plumbing.Hash
	as     fs.FileInfo // packed-refs when packed was read
}

// maxSymbolic is how many symbolic refs may follow one another.
const maxSymbolic = 5

// maxPackedRefs bounds packed-refs, in bytes.
const maxPackedRefs = 64 << 20

// dir returns the directory of a ref. Some refs belong to one worktree.
func (r *refs) dir(name string) hostDir {
	for _, own := range []string{"refs/bisect/", "refs/worktree/", "refs/rewritten/"} {
		if strings.HasPrefix(name, own) {
			return r.git
		}
	}
	if strings.HasPrefix(name, "refs/") {
		return r.common
	}
	return r.git
}

// read returns the content of a ref: an id, or the name of another ref.
func (r *refs) read(name string) (id plumbing.Hash, symbolic string, err error) {
	if !validRef(name) {
		return id, "", vfs.NotFound
	}
	text, err := r.dir(name).readSmall(name)
	switch {
	case err == nil:
		return parseRef(text)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) && !r.dir(name).isDir(name):
		return id, "", err
	}
	packed, err := r.readPacked()
	if err != nil {
		return id, "", err
	}
	id, ok := packed[name]
	if !ok {
		return id, "", vfs.NotFound
	}
	return id, "", nil
}

func parseRef(text string) (id plumbing.Hash, symbolic string, err error) {
	text = strings.TrimSpace(text)
	if to, ok := strings.CutPrefix(text, "ref:"); ok {
		return id, strings.TrimSpace(to), nil
	}
	if len(text) < 40 || !plumbing.IsHash(text[:40]) {
		return id, "", flawed(vfs.Corrupt, "a ref says neither an object nor another ref")
	}
	return plumbing.NewHash(text[:40]), "", nil
}

// resolve follows symbolic refs. It returns the last name and its id, which is zero for
// a branch without a commit.
func (r *refs) resolve(name string) (last string, id plumbing.Hash, err error) {
	for range maxSymbolic {
		id, symbolic, err := r.read(name)
		switch {
		case errors.Is(err, vfs.NotFound):
			return name, plumbing.ZeroHash, nil
		case err != nil:
			return "", id, err
		case symbolic == "":
			return name, id, nil
		}
		name = symbolic
	}
	return "", id, flawed(vfs.Corrupt, "more than %d refs name another in a row", maxSymbolic)
}

// readPacked returns packed-refs. It reads the file again when it was replaced.
func (r *refs) readPacked() (map[string]plumbing.Hash, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, err := r.common.stat("packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		r.packed, r.as = nil, nil
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if r.as != nil && os.SameFile(now, r.as) && now.ModTime().Equal(r.as.ModTime()) && now.Size() == r.as.Size() {
		return r.packed, nil
	}
	f, err := r.common.open("packed-refs")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if now, err = f.Stat(); err != nil {
		return nil, err
	}
	if now.Size() > maxPackedRefs {
		return nil, flawed(vfs.Limit, "packed-refs is longer than %d bytes", maxPackedRefs)
	}
	packed := map[string]plumbing.Hash{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' || line[0] == '^' {
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !plumbing.IsHash(id) {
			return nil, flawed(vfs.Corrupt, "a line of packed-refs cannot be read")
		}
		packed[name] = plumbing.NewHash(id)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	r.packed, r.as = packed, now
	return packed, nil
}

// validRef reports whether name is a valid ref (git-check-ref-format(1)): a path below
// refs, or a name like HEAD.
func validRef(name string) bool {
	if !strings.Contains(name, "/") {
		return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
	}
	return strings.HasPrefix(name, "refs/") && plumbing.ReferenceName(name).Validate() == nil
}

// replacements returns which objects replace others (git-replace(1)).
func (r *refs) replacements() (map[plumbing.Hash]plumbing.Hash, error) {
	const dir = "refs/replace"
	packed, err := r.readPacked()
	if err != nil {
		return nil, err
	}
	entries, err := r.common.readDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNotDir) {
		return nil, err
	}
	all := map[plumbing.Hash]plumbing.Hash{}
	add := func(name string) {
		of, ok := strings.CutPrefix(name, dir+"/")
		if !ok || !plumbing.IsHash(of) {
			return
		}
		if id, symbolic, err := r.read(name); err == nil && symbolic == "" {
			all[plumbing.NewHash(of)] = id
		}
	}
	for name := range packed {
		add(name)
	}
	for _, e := range entries {
		add(dir + "/" + e.Name())
	}
	return all, nil
}
