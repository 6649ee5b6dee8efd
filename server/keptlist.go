package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"capd/operator"
	"capd/state"
	"capd/vfs"
	"capd/vfs/overlay"
)

// Kept describes the changes of one overlay that are kept in a state directory. As JSON it is what the
// command line prints.
type Kept struct {
	Name    string    `json:"name"` // for [ForgetKept]
	Path    string    `json:"path"` // of the mount
	URL     string    `json:"url"`  // of the overlay
	Mounted bool      `json:"mounted"`
	Bytes   int64     `json:"bytes"` // on disk
	Changed time.Time `json:"changed"`
	Problem string    `json:"problem,omitempty"` // why they cannot be used

	waits bool // a change waits there
}

// ListKept lists the changes that are kept in a state directory, whether or not a host runs there.
func ListKept(ctx context.Context, st state.Dir) ([]Kept, error) {
	all, err := keptIn(ctx, st)
	return slices.DeleteFunc(all, func(k Kept) bool { return !k.waits && k.Problem == "" }), err
}

// keptIn describes each place in a state directory.
func keptIn(ctx context.Context, st state.Dir) (all []Kept, err error) {
	entries, err := os.ReadDir(st.Changes())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, st.Unusable(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), state.Removed) {
			all = append(all, describeKept(ctx, &kept{dir: filepath.Join(st.Changes(), e.Name())}))
		}
	}
	return all, nil
}

func describeKept(ctx context.Context, k *kept) (one Kept) {
	err := k.read()
	if err == nil {
		one.waits, err = k.waits(ctx)
	}
	one.Name, one.Path, one.URL, one.Mounted = filepath.Base(k.dir), k.of.Path, k.of.URL, k.mounted()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		one.Problem = vfs.Message(err)
	}
	if used, err := usage(k.upper()); err == nil {
		one.Bytes = used.Bytes
	}
	if fi, err := os.Stat(filepath.Join(k.upper(), "index")); err == nil {
		one.Changed = fi.ModTime()
	}
	return one
}

// mounted reports whether an overlay uses the place.
func (k *kept) mounted() bool {
	return taken(filepath.Join(k.dir, overlay.LockName))
}

// waits reports whether a change waits in the place, which no overlay uses.
func (k *kept) waits(ctx context.Context) (bool, error) {
	store, err := openPhysical(k.upper())
	if err != nil {
		return false, err
	}
	defer store.Close()
	root := store.Root()
	defer root.Close()
	waits, _, err := overlay.Waits(ctx, root)
	return waits, err
}

// ForgetKept drops changes that are kept in a state directory. It answers notFound, and busy while they
// are mounted.
func ForgetKept(st state.Dir, name string) error {
	dir := filepath.Join(st.Changes(), name)
	if _, err := os.Lstat(dir); vfs.CheckName(name) != nil || err != nil {
		return vfs.At(name, vfs.Errorf(vfs.NotFound, "nothing is kept by this name"))
	}
	k, err := takeKept(dir)
	if err != nil {
		return vfs.At(name, vfs.Errorf(vfs.Busy, "it is mounted; revert the changes there"))
	}
	return k.close(true)
}

// tellKept logs which changes are kept and are in no mount. It removes the places in which no change
// waits, as a host that was killed leaves them.
func (s *Server) tellKept(ctx context.Context) {
	entries, _ := os.ReadDir(s.state.Changes())
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), state.Removed) {
			_ = os.RemoveAll(filepath.Join(s.state.Changes(), e.Name()))
		}
	}
	all, err := keptIn(ctx, s.state)
	for _, k := range all {
		switch {
		case k.Mounted:
		case k.Problem != "":
			s.logf("capd: changes that were kept cannot be used: %s", k.Problem)
		case k.waits:
			s.logf("capd: %s: changes that are kept wait there; mount %s there again to see them", operator.Place(k.Path), operator.Quote(vfs.Printable(k.URL)))
		default:
			_ = ForgetKept(s.state, k.Name)
		}
	}
	if err != nil {
		s.logf("capd: %s", vfs.Message(err))
	}
}
