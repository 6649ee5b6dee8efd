package git

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// maxBorrow is how many repositories may borrow one from another, as in git.
const maxBorrow = 5

// borrow adds an objects directory and those that its info/alternates names.
func (o *objects) borrow(dir hostDir, depth int) error {
	if slices.ContainsFunc(o.dirs, func(d hostDir) bool { return d.path == dir.path }) {
		return nil
	}
	if depth > maxBorrow || len(o.dirs) > 64 {
		return flawed(vfs.Limit, "too many repositories borrow objects in a row")
	}
	o.dirs = append(o.dirs, dir)
	text, err := dir.readSmall("info/alternates")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return ambient(err)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if o.confined {
			return leadsOut(dir.full("info/alternates"))
		}
		if line[0] == '"' {
			if line, err = strconv.Unquote(line); err != nil {
				continue
			}
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir.path, line)
		}
		if err := o.borrow(hostDir{path: filepath.Clean(line)}, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// rescan looks for added or removed packs, for example after git repack. It stores a
// new list only if there are any.
func (o *objects) rescan() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done {
		return vfs.Stale
	}
	gone := map[string]*pack{}
	for _, p := range *o.packs.Load() {
		gone[p.path] = p
	}
	var now, fresh []*pack
	err := o.eachIndex(func(dir hostDir, name string) error {
		path := dir.full(name)
		p := gone[path]
		delete(gone, path)
		if len(now) >= maxPacks {
			return flawed(vfs.Limit, "the repository has more than %d packs; run git gc", maxPacks)
		}
		if p == nil {
			var err error
			p, err = openPack(dir, name, o.bases)
			if errors.Is(err, fs.ErrNotExist) {
				return nil // being written or removed
			} else if err != nil {
				return hidden(err)
			}
			fresh = append(fresh, p)
		}
		now = append(now, p)
		return nil
	})
	if err != nil {
		for _, p := range fresh {
			p.close()
		}
		return err
	}
	if len(fresh)+len(gone) > 0 {
		o.packs.Store(&now)
		o.last.Store(nil)
	}
	for _, p := range gone {
		p.close()
	}
	return nil
}

// eachIndex calls visit for the index of each pack.
func (o *objects) eachIndex(visit func(dir hostDir, name string) error) error {
	for _, dir := range o.dirs {
		entries, err := dir.readDir("pack")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return hidden(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".idx") {
				continue
			}
			if err := visit(dir, "pack/"+e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *objects) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done = true
	for _, p := range *o.packs.Load() {
		p.close()
	}
	o.packs.Store(&[]*pack{})
	o.bases.Clear()
}

// withPrefix returns up to most ids of objects that begin with prefix, each once.
func (o *objects) withPrefix(prefix []byte, most int) (ids []plumbing.Hash, err error) {
	for _, p := range *o.packs.Load() {
		if ids, err = p.index.withPrefix(ids, prefix, most); err != nil {
			return nil, err
		}
	}
	first := hex.EncodeToString(prefix[:1])
	for _, dir := range o.dirs {
		names, err := dir.readDir(first)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, ambient(err)
		}
		for _, e := range names {
			id, err := hex.DecodeString(first + e.Name())
			if err == nil && len(id) == idLen && bytes.HasPrefix(id, prefix) && len(ids) < most {
				ids = append(ids, plumbing.Hash(id))
			}
		}
	}
	slices.SortFunc(ids, func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(ids), nil
}
