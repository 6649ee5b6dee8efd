package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"capd/backend/memory"
	"capd/meter"
	"capd/state"
	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/overlay"
	"capd/virtualfs"
)

// kept is a directory in the state directory where an overlay keeps its changes. There is one for each
// pair of a mount's path and the URL of the tree below, with these names in it:
//
//	lock        locked while the overlay is mounted
//	mount.json  what was mounted, and where
//	upper/      what the overlay writes to
//
// The directory is removed when no change waits in it.
type kept struct {
	dir  string
	lock *os.File
	of   keptMount
}

// keptMount is the content of mount.json.
type keptMount struct {
	Format int    `json:"format"`
	Path   string `json:"path"` // of the mount
	URL    string `json:"url"`  // of the overlay
	Base   string `json:"base,omitempty"`
}

const keptFormat = 1

// keptName returns the name of the directory for the changes of the overlay u. It is the mount's path, as far as
// it is plain, and a part of a digest.
func keptName(u *virtualfs.URL) string {
	plain := func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-", r) {
			return r
		}
		return '_'
	}
	sum := sha256.Sum256([]byte(u.Place + "\x00" + beneath(u)))
	name := strings.Map(plain, u.Place)
	return fmt.Sprintf("%.40s-%x", name, sum[:8])
}

// beneath names what u keeps changes of: the tree below an overlay, or a git revision.
func beneath(u *virtualfs.URL) string {
	if u.Below != nil {
		return u.Below.String()
	}
	revision := *u
	revision.Query = maps.Clone(u.Query)
	for _, option := range []string{"keep", "max", "nodes"} {
		revision.Query.Del(option)
	}
	return revision.String()
}

// openKept opens the directory where the overlay u keeps its changes, at most as much as l says. It answers busy
// when another mount has it, and unsupported when a newer version of capd wrote there.
func openKept(ctx context.Context, st state.Dir, u *virtualfs.URL, l memory.Limits) (_ *virtualfs.Upper, err error) {
	k, err := takeKept(filepath.Join(st.Changes(), keptName(u)))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.lock.Close())
		}
	}()
	if err := k.read(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	up := k.upper()
	if err := state.MakeDir(up); err != nil {
		return nil, st.Unusable(err)
	}
	store, err := openPhysical(up)
	if err != nil {
		return nil, err
	}
	root := store.Root()
	tree, err := bounded(root, up, l)
	waits, settling := false, false
	if err == nil {
		waits, settling, err = overlay.Waits(ctx, root)
	}
	if err == nil {
		switch {
		case !waits:
			k.of.Base = ""
		case settling: // what was settled shows in what the store has now
			k.of.Base = present(k.of.Base)
		}
		k.of.Format, k.of.Path, k.of.URL = keptFormat, u.Place, u.String()
		err = k.write()
	}
	if err != nil {
		err = vfs.Errorf(vfs.CodeOf(err), "the changes kept in %s cannot be used: %s", vfs.Printable(k.dir), vfs.Message(err))
		return nil, errors.Join(err, root.Close(), store.Close())
	}
	return &virtualfs.Upper{
		Tree: tree, Kept: true, Base: k.of.Base, SetBase: k.setBase,
		Close: func(settled bool) error { return errors.Join(store.Close(), k.close(settled)) },
	}, nil
}

// present returns base with what the store has now: only the blank and the ref, if base
// has one. See openGit.
func present(base string) string {
	if at := strings.IndexByte(base, ' '); at >= 0 {
		return base[at:]
	}
	return ""
}

// takeKept takes the directory dir for this process, until its lock is closed. It makes dir if it
// is missing.
func takeKept(dir string) (*kept, error) {
	for {
		if err := state.MakeDir(dir); err != nil {
			return nil, vfs.Errorf(vfs.Denied, "changes cannot be kept in %s: %v", dir, state.Reason(err))
		}
		lock, err := state.Take(filepath.Join(dir, overlay.LockName))
		switch {
		case errors.Is(err, fs.ErrNotExist): // whoever had the directory has just removed it
		case err == vfs.Busy:
			return nil, vfs.Errorf(vfs.Busy, "another process has the changes that are kept in %s", dir)
		case err != nil:
			return nil, vfs.Errorf(vfs.Denied, "changes cannot be kept in %s: %v", dir, state.Reason(err))
		default:
			return &kept{dir: dir, lock: lock}, nil
		}
	}
}

func (k *kept) file() string  { return filepath.Join(k.dir, "mount.json") }
func (k *kept) upper() string { return filepath.Join(k.dir, "upper") }

// read reads mount.json.
func (k *kept) read() error {
	text, err := os.ReadFile(k.file())
	if err != nil {
		return err
	}
	switch err := json.Unmarshal(text, &k.of); {
	case err != nil || k.of.Format < 1:
		return vfs.Errorf(vfs.Corrupt, "%s cannot be read; restore it, or move its directory away", k.file())
	case k.of.Format > keptFormat:
		return vfs.Errorf(vfs.Unsupported, "the changes in %s were kept by a newer version of capd; apply or revert them with that one", k.dir)
	}
	return nil
}

func (k *kept) write() error {
	text, err := json.Marshal(k.of)
	if err == nil {
		err = state.WriteFile(k.file(), append(text, '\n'))
	}
	if err != nil {
		return vfs.Errorf(vfs.Denied, "nothing can be written there: %v", state.Reason(err))
	}
	return nil
}

// setBase remembers on what later changes are based.
func (k *kept) setBase(base string) error {
	if k.of.Base == base {
		return nil
	}
	k.of.Base = base
	return k.write()
}

// close unlocks the directory. It removes it first if no change waits in it: settled says so of
// one that an overlay used.
func (k *kept) close(settled bool) error {
	var err error
	if !settled {
		waits, damaged := k.waits(context.Background())
		settled = !waits && damaged == nil
	}
	if settled {
		err = state.RemoveDir(k.dir)
	}
	return errors.Join(err, k.lock.Close())
}

// bounded returns tree, which lies in the directory dir, with a bound on what is stored in it.
func bounded(tree vfs.Dir, dir string, l memory.Limits) (vfs.Dir, error) {
	used, err := usage(dir)
	if err != nil {
		return nil, err
	}
	m := meter.New("kept", "the changes that are kept here", meter.Limits{meter.StoredBytes: l.Bytes, meter.StoredNodes: l.Nodes})
	m.Settle(meter.Effect{}, used)
	return membrane.Guarded(tree, nil, membrane.Guard{Meter: m}), nil
}

// usage returns how much is stored below dir.
func usage(dir string) (used meter.Effect, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		fi, err := e.Info()
		if err == nil {
			used.Bytes += fi.Size()
			used.Nodes++
		}
		return err
	})
	return used, err
}
