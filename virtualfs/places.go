package virtualfs

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"capd/vfs"
	"capd/vfs/diff"
)

// Mounted returns what tells the stores from others that a grant on path reaches: the one
// that path is in, and those mounted below path. The keys are the paths of the mounts. The
// texts are printable ASCII and never "". They are the same after a restart if the same
// directory, repository or tree is mounted again.
func (fs *FS) Mounted(path string) map[string]string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := map[string]string{}
	if m := fs.around(path); m != nil {
		all[m.Path] = m.identity
	}
	for at, m := range fs.mounts {
		if diff.Within(at, path) {
			all[at] = m.identity
		}
	}
	return all
}

// Remains reports whether a grant on path still reaches what it reached when Mounted
// returned then. The mount that path is in has to be the same. A mount below path must not
// show another store than it did; a new one, and one that is gone, do not matter.
func (fs *FS) Remains(path string, then map[string]string) bool {
	now := fs.Mounted(path)
	for at, identity := range now {
		was, known := then[at]
		if known && was != identity || !known && diff.Within(path, at) {
			return false
		}
	}
	for at := range then {
		if _, here := now[at]; !here && diff.Within(path, at) {
			return false
		}
	}
	return true
}

// Lasting reports whether what is stored at path outlives the process.
func (fs *FS) Lasting(path string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m := fs.around(path)
	switch {
	case m == nil:
		return false
	case m.drafts():
		return m.store.Kept
	}
	return m.store.Lasting
}

// Drafted reports whether changes at path wait until the host applies or commits them.
func (fs *FS) Drafted(path string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m := fs.around(path)
	return m != nil && m.drafts()
}

func (m *mount) drafts() bool { return m.overlay != nil || m.store.Own != nil && !m.store.Fixed }

// around returns the mount that path is in, or nil. Needs fs.mu.
func (fs *FS) around(path string) *mount {
	for {
		if m := fs.mounts[path]; m != nil || path == "" {
			return m
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
	}
}

// identify returns what tells the store of u, which shows tree, from others: the identity of
// its root, or else the scheme and the path of the URL.
func identify(ctx context.Context, u *URL, tree vfs.Dir) (string, error) {
	text, err := vfs.Identity(ctx, tree)
	if vfs.CodeOf(err) != vfs.Unsupported {
		return text, err
	}
	if u.Below != nil {
		u = u.Below
	}
	sum := sha256.Sum256([]byte(u.Scheme + ":" + u.Path))
	return u.Scheme + ":" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}
