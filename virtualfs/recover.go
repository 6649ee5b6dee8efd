package virtualfs

import (
	"context"
	"encoding/json"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// target says where a batch's changes go, so that another process can find it: the tree
// at Path in a namespace of these mounts. A guest's changes passed the guards of the
// mounts; recovery works on the stores themselves.
type target struct {
	Mounts map[string]string `json:"mounts"` // URLs by path; "" for a store that ends with its process
	Path   string            `json:"path"`
}

// String returns "" if nothing of it could be found again.
func (t target) String() string {
	lasts := false
	for _, url := range t.Mounts {
		lasts = lasts || url != ""
	}
	if !lasts {
		return ""
	}
	text, err := json.Marshal(t)
	if err != nil { // cannot happen with strings
		panic(err)
	}
	return string(text)
}

// beneath names the store below the overlay m.
func (m *mount) beneath() string {
	if !m.store.Lasting {
		return ""
	}
	return target{Mounts: map[string]string{"": m.url.Below.String()}}.String()
}

// Target names the tree at path for [Recover]. It returns "" if nothing of that tree
// survives the process.
func (fs *FS) Target(path string) string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	t := target{map[string]string{}, path}
	for at, m := range fs.mounts {
		switch {
		case !within([]string{at}, path) && !within([]string{path}, at):
		case m.store.Lasting && m.overlay == nil:
			t.Mounts[at] = m.URL
		default:
			t.Mounts[at] = ""
		}
	}
	return t.String()
}

// Recover finishes or undoes the batches of changes in the journal of a process that died.
// Afterwards each batch is either done or undone as a whole. other, which may be nil, opens
// the targets that are not trees of mounts, by the names that they were given.
func Recover(ctx context.Context, journal vfs.Dir, open map[string]Opener, other func(ctx context.Context, name string) (vfs.Dir, error)) ([]batch.Recovered, error) {
	var stores []*Store
	defer func() {
		for _, s := range stores {
			s.close()
		}
	}()
	return batch.Recover(ctx, journal, func(ctx context.Context, name string) (vfs.Dir, error) {
		var t target
		switch err := json.Unmarshal([]byte(name), &t); {
		case name == "": // it ended with its process
			return nil, nil
		case err != nil && other != nil:
			return other(ctx, name)
		case err != nil:
			return nil, vfs.Errorf(vfs.NotFound, "the target of these changes is unknown")
		}
		names := namespace.New()
		for path, url := range t.Mounts {
			s := &Store{Root: namespace.New().Root}
			if url != "" {
				u, err := ParseURL(url)
				if err != nil {
					return nil, err
				}
				opener := open[u.Scheme]
				if opener == nil {
					return nil, vfs.Errorf(vfs.NotFound, "no store is of kind %q any more", u.Scheme)
				}
				if s, err = opener(ctx, u); err != nil {
					return nil, err
				}
				stores = append(stores, s)
			}
			if err := names.Mount(path, s.Root(), namespace.Options{}); err != nil {
				return nil, err
			}
		}
		root := membrane.Guarded(names.Root(), nil)
		if t.Path == "" {
			return root, nil
		}
		return vfs.WalkDir(ctx, root, t.Path)
	})
}
