package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"

	"capd/sandbox"
	"capd/state"
	"capd/vfs"
)

// caches prepares the caches of --cache, for this tree only, until release. While
// another run uses them, this run starts without.
func (c *runCommand) caches(e *env, st state.Dir, from *source) (all []sandbox.Cache, release func(), err error) {
	release = func() {}
	if len(c.Cache) == 0 {
		return nil, release, nil
	}
	id := sha256.Sum256([]byte(from.tree))
	dir := filepath.Join(st.Caches(), hex.EncodeToString(id[:16]))
	for _, name := range c.Cache {
		at, err := cacheAt(name)
		if err != nil {
			return nil, release, err
		}
		own := sha256.Sum256([]byte(at))
		all = append(all, sandbox.Cache{At: at, Dir: filepath.Join(dir, hex.EncodeToString(own[:8]))})
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, release, st.Unusable(err)
	}
	lock, err := state.Take(filepath.Join(dir, "lock"))
	switch {
	case err == vfs.Busy:
		e.logf("capd: another run has the caches of this tree; this one begins with empty ones, which do not last")
		return nil, release, nil
	case err != nil:
		return nil, release, st.Unusable(err)
	}
	for _, cache := range all {
		if err := os.MkdirAll(cache.Dir, 0o700); err != nil {
			lock.Close()
			return nil, release, st.Unusable(err)
		}
	}
	return all, func() { lock.Close() }, nil
}

// usualCaches are directories in the home of a program in which it keeps caches, and
// the names under which capd run keeps them.
var usualCaches = map[string]string{".cache": "", ".npm": "npm", ".cargo": "cargo"}

// cacheAt returns where in the sandbox the directory name of a program's home is. A
// shell may have expanded ~ to the caller's home.
func cacheAt(name string) (string, error) {
	bad := usageError{"--cache names a directory in the program's home, such as ~/.cache or ~/.cache/go-build"}
	rel := filepath.Clean(name)
	home, _ := os.UserHomeDir()
	for _, home := range []string{"~", home, sandbox.HomePath} {
		if in, is := homeOf(home, rel); is {
			rel = in
			break
		}
	}
	if in, is := homeOf(sandbox.CachePath, rel); is {
		rel = path.Join(".cache", in)
	}
	if rel = filepath.ToSlash(rel); rel == "" || !filepath.IsLocal(rel) || rel == "." {
		return "", bad
	}
	first, rest, _ := strings.Cut(rel, "/")
	if in, usual := usualCaches[first]; usual {
		return path.Join(sandbox.CachePath, in, rest), nil
	}
	return path.Join(sandbox.HomePath, rel), nil
}
