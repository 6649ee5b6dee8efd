package virtualfs

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"capd/meter"
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

// Lasting reports whether what is stored at path outlives the process. It does not wait, not even for an unmount.
func (fs *FS) Lasting(path string) bool {
	all := fs.lasting.Load()
	if all == nil {
		return false
	}
	for {
		if lasts, mounted := (*all)[path]; mounted || path == "" {
			return lasts
		}
		path = above(path)
	}
}

// noteLasting notes what Lasting says of the mounts that there are. Needs fs.mu.
func (fs *FS) noteLasting() {
	all := make(map[string]bool, len(fs.mounts))
	for path, m := range fs.mounts {
		all[path] = m.drafts() && m.store.Kept || !m.drafts() && m.store.Lasting
	}
	fs.lasting.Store(&all)
}

// Reopens reports whether opening the URL of the mount that path is in shows the same again, so that an overlay can lie on it.
func (fs *FS) Reopens(path string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	m := fs.around(path)
	return m != nil && (m.store.Lasting || m.store.Fixed) && !m.drafts()
}

// Quota returns the meter of what the mount exactly at path may hold, or nil if it has no quota.
func (fs *FS) Quota(path string) *meter.Meter {
	m, err := fs.at(path)
	if err != nil {
		return nil
	}
	return m.meter
}

// Changed reports whether changes wait in the mount exactly at path.
func (fs *FS) Changed(path string) bool {
	m, err := fs.at(path)
	return err == nil && m.changed()
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
		path = above(path)
	}
}

// above returns the path of the directory that path is in.
func above(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

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
