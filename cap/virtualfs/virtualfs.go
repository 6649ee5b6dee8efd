// Package virtualfs serves the interfaces VirtualFs and Materialized, with which the
// operator changes the composition of a host's tree. It only translates: a
// [Host] decides.
package virtualfs

import (
	"context"
	"errors"
	"strings"

	"capd/cap/control"
	"capd/cap/dir"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Host is an [operator.VirtualFs], with the methods that a client has in another form.
type Host interface {
	operator.VirtualFs
	Mounts() []operator.Mount // in byte order of paths
	// Root returns the whole tree, with a control of its own.
	Root(ctx context.Context) (vfs.Dir, *membrane.Control, error)
}

// New returns a VirtualFs for h. h remains the caller's.
func New(h Host) *vat.Cap { return vat.Serve(table, &server{h}) }

type server struct{ host Host }

// Methods that may take long are neither Inline nor Serial: they run in turns of their
// own and do not delay other calls.
var table = vat.NewTable(
	vat.Handle(schema.VirtualFs_mount, wire.OnPath((*server).mount)),
	vat.Handle(schema.VirtualFs_unmount, wire.OnPath((*server).unmount)),
	vat.Handle(schema.VirtualFs_mounts, (*server).mounts),
	vat.Handle(schema.VirtualFs_root, (*server).root),
	vat.Handle(schema.VirtualFs_diff, (*server).diff),
	vat.Handle(schema.VirtualFs_apply, (*server).apply),
	vat.Handle(schema.VirtualFs_undo, wire.OnPath((*server).undo)),
	vat.Handle(schema.VirtualFs_revert, (*server).revert),
	vat.Handle(schema.VirtualFs_commit, wire.OnPath((*server).commit)),
	vat.Handle(schema.VirtualFs_snapshot, wire.OnPath((*server).snapshot)),
	vat.Handle(schema.VirtualFs_materialize, wire.OnPath((*server).materialize)),
	wire.Help(schema.VirtualFs_help, help.Text),
)

func (s *server) mount(c vat.Call[schema.VirtualFs_mount_Params, schema.VirtualFs_mount_Results], path string) error {
	url, err := wire.Param(c.Params().Url())
	if err != nil {
		return err
	}
	w, err := wire.Sound[schema.Attenuation](c.Params().HasAttenuation())(c.Params().Attenuation())
	if err != nil {
		return err
	}
	a, err := wire.Attenuation(w)
	if err != nil {
		return vfs.At(path, err)
	}
	if err := wire.CheckMount(url, a); err != nil {
		return vfs.At(path, err)
	}
	return s.host.Mount(c.Context(), path, url, a)
}

func (s *server) unmount(c vat.Call[schema.VirtualFs_unmount_Params, schema.VirtualFs_unmount_Results], path string) error {
	return s.host.Unmount(c.Context(), path)
}

// start begins the cursor of every mount, so that the cursor of the root mount, whose
// path is empty, is not empty.
const start = "/"

func (s *server) mounts(c vat.Call[schema.VirtualFs_mounts_Params, schema.VirtualFs_mounts_Results]) error {
	raw, err := wire.Param(c.Params().After())
	if err != nil {
		return err
	}
	after, going := strings.CutPrefix(string(raw), start)
	if len(raw) > 0 && !going {
		return errCursor
	}
	p := page{limit: wire.PageSize(c.Params().Limit())}
	var mounts []operator.Mount
	for _, m := range s.host.Mounts() {
		if going && m.Path <= after {
			continue
		}
		if !p.add(wire.MountSize(m)) {
			break
		}
		mounts = append(mounts, m)
	}
	r, err := c.ResultsFor(p.bytes)
	if err != nil {
		return err
	}
	if err := wire.SetAll(mounts, r.NewMounts, wire.SetMount); err != nil {
		return err
	}
	if !p.more {
		return nil
	}
	r.SetMore(true)
	return r.SetCursor([]byte(start + mounts[len(mounts)-1].Path))
}

var errCursor = vfs.Errorf(vfs.Invalid, "after is not a cursor from a page; leave it empty to begin at the first")

func (s *server) root(c vat.Call[schema.VirtualFs_root_Params, schema.VirtualFs_root_Results]) error {
	d, ctl, err := s.host.Root(c.Context())
	if err != nil {
		return err
	}
	return errors.Join(c.Results().SetDir(c.Caps().Put(dir.New(d))), c.Results().SetControl(c.Caps().Put(control.New(ctl))))
}

func (s *server) commit(c vat.Call[schema.VirtualFs_commit_Params, schema.VirtualFs_commit_Results], path string) error {
	what, err := wire.One(wire.Commit)(wire.Sound[schema.Commit](c.Params().HasCommit())(c.Params().Commit()))
	if err != nil {
		return err
	}
	id, err := s.host.Commit(c.Context(), path, what)
	if err != nil {
		return err
	}
	return c.Results().SetId(id)
}

func (s *server) snapshot(c vat.Call[schema.VirtualFs_snapshot_Params, schema.VirtualFs_snapshot_Results], path string) error {
	store, err := wire.Param(c.Params().Store())
	pin := wire.Keep[string](&err)(wire.Param(c.Params().Pin()))
	if err != nil {
		return err
	}
	progress, stop := report(c.Context(), c.Caps().Get(c.Params().Progress()))
	defer stop()
	snap, err := s.host.Snapshot(c.Context(), path, store, pin, progress)
	if err != nil {
		return err
	}
	w, err := c.Results().NewSnapshot()
	if err != nil {
		return err
	}
	return wire.SetSnapshot(w, snap)
}

func (s *server) materialize(c vat.Call[schema.VirtualFs_materialize_Params, schema.VirtualFs_materialize_Results], path string) error {
	w, err := wire.Sound[schema.Bounds](c.Params().HasBounds())(c.Params().Bounds())
	if err != nil {
		return err
	}
	b, err := wire.Bounds(w)
	if err != nil {
		return vfs.At(path, err)
	}
	progress, stop := report(c.Context(), c.Caps().Get(c.Params().Progress()))
	defer stop()
	tree, err := s.host.Materialize(c.Context(), path, b, progress)
	if err != nil {
		return err
	}
	return c.Results().SetTree(c.Caps().Put(vat.Serve(treeTable, &materialized{tree: tree})))
}
