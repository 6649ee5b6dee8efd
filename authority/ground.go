package authority

import (
	"context"

	"capd/database"
	"capd/operator"
	"capd/policy"
	"capd/vfs"
	"capd/vfs/membrane"
)

// ground is where a grant is to stand. The caller calls release.
type ground struct {
	subject operator.Subject
	node    vfs.Node
	path    string // in the tree; no name on it is a link
	root    string // the id of the root that it is in, or ""
	rights  membrane.Rights
	release func()
}

// ground finds what guest is to be granted on t: the node at path, or at path in what guest gets of a root,
// within the defaults of the roots. It makes the directory on the way that belongs to guest alone.
func (h *Host) ground(ctx context.Context, guest, path string, t operator.Terms) (g ground, err error) {
	if g.subject, err = operator.ParseSubject(guest); err != nil {
		return g, err
	}
	w := inRoots(g.subject, path, t)
	roots := h.roots.Load()
	at, own, err := roots.Find(w)
	if err == nil && own != "" {
		err = h.makeOwn(ctx, g.subject, own, t.Scratch)
	}
	if err == nil {
		g.node, g.release, err = h.walk(ctx, g.subject, at)
	}
	if err != nil {
		return g, vfs.At(at, err)
	}
	place, _ := membrane.PlaceOf(g.node)
	g.path = place.Path
	if t.Rights, g.root, err = roots.Admit(w, g.path); err == nil {
		g.rights, err = t.Keep()
	}
	if err != nil {
		g.release()
		return g, vfs.At(at, err)
	}
	return g, nil
}

// inRoots returns what the roots are asked about a grant of path to subject on t.
func inRoots(subject operator.Subject, path string, t operator.Terms) policy.Wanted {
	return policy.Wanted{Subject: subject, Root: t.Root, Path: path, Rights: t.Rights, Links: t.Links, Beyond: t.BeyondDefault, Scratch: t.Scratch != 0}
}

// makeOwn makes the directory at path, which is subject's own, unless something is there.
func (h *Host) makeOwn(ctx context.Context, subject operator.Subject, path string, scratch int64) error {
	if operator.InScopes(path) {
		return h.scope(ctx, subject, path, scratch)
	}
	names, err := vfs.SplitPath(path)
	if err != nil {
		return err
	}
	last := len(names) - 1
	node, release, err := h.walk(ctx, "", vfs.JoinAll("", names[:last]))
	if err != nil {
		return err
	}
	defer release()
	in, ok := node.(vfs.Dir)
	if !ok {
		return vfs.NotDir
	}
	made, err := in.Mkdir(ctx, names[last])
	switch {
	case err == nil:
		return made.Close()
	case vfs.CodeOf(err) == vfs.Exists:
		return nil
	}
	return err
}

// Held calls do with the paths of the live grants, shares not counted, below path. Nothing is granted meanwhile.
func (h *Host) Held(ctx context.Context, path string, do func(paths []string) error) error {
	h.granting.Lock()
	defer h.granting.Unlock()
	paths, err := HeldIn(ctx, h.db, path)
	if err != nil {
		return err
	}
	return do(paths)
}

// HeldIn returns the paths of the live grants in db, shares not counted, below path.
func HeldIn(ctx context.Context, db *database.DB, path string) (paths []string, err error) {
	err = db.Read(ctx, func(rows *database.Rows) error {
		paths = nil
		found, err := rows.Query("SELECT DISTINCT path FROM grants WHERE parent IS NULL AND ended IS NULL AND path>=? AND path<?", []byte(path+"/"), []byte(path+"0"))
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var p []byte
			if err := found.Scan(&p); err != nil {
				return err
			}
			paths = append(paths, string(p))
		}
		return found.Err()
	})
	return paths, err
}

// Unheld calls take with the subjects that had grants in the root with that id and have none
// any more. Nothing is granted meanwhile.
func (h *Host) Unheld(ctx context.Context, root string, take func(gone []operator.Subject) error) error {
	h.granting.Lock()
	defer h.granting.Unlock()
	var gone []operator.Subject
	err := h.db.Read(ctx, func(rows *database.Rows) error {
		found, err := rows.Query("SELECT subject FROM grants WHERE root=? AND parent IS NULL GROUP BY subject HAVING SUM(ended IS NULL)=0", root)
		if err != nil {
			return err
		}
		defer found.Close()
		for found.Next() {
			var s operator.Subject
			if err := found.Scan(&s); err != nil {
				return err
			}
			gone = append(gone, s)
		}
		return found.Err()
	})
	if err != nil {
		return err
	}
	return take(gone)
}
