package console

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/diff"
)

// VirtualFs changes the composition of a host's tree. Its methods behave like those of
// [operator.VirtualFs]. It is safe for concurrent use.
type VirtualFs struct{ cap *vat.Cap }

// The methods of [operator.VirtualFs] that take a context and return nothing that only a
// host has are the same here.
var _ interface {
	Mount(ctx context.Context, path, url string, a operator.Attenuation) error
	Unmount(ctx context.Context, path string) error
	Diff(ctx context.Context, path string, o operator.DiffOptions, after string, yield func(diff.Change) bool) (operator.Review, error)
	Apply(ctx context.Context, path string, o operator.ApplyOptions, progress operator.Progress) (operator.Applied, error)
	Undo(ctx context.Context, path, id string) error
	Revert(ctx context.Context, path string, paths []string) (int, error)
	Commit(ctx context.Context, path string, c operator.Commit) (string, error)
	Snapshot(ctx context.Context, path, store, pin string, progress operator.Progress) (operator.Snapshot, error)
	Materialize(ctx context.Context, path string, b operator.Bounds, progress operator.Progress) (operator.Tree, error)
} = (*VirtualFs)(nil)

// VirtualFs returns the VirtualFs of the host. It answers unsupported if the host
// serves a fixed tree.
func (c *Console) VirtualFs(ctx context.Context) (fs *VirtualFs, err error) {
	err = wire.Do(ctx, c.cap, schema.Console_virtualFs, nil, func(r schema.Console_virtualFs_Results, caps *vat.Caps) error {
		held, err := hold(caps.Get(r.Fs()))
		fs = &VirtualFs{held}
		return err
	})
	if err != nil {
		return nil, err
	}
	return fs, nil
}

// hold returns a reference of its own to a capability in results, or corrupt for none.
func hold(c *vat.Cap) (*vat.Cap, error) {
	if c == nil {
		return nil, errNoCap
	}
	return c.AddRef(), nil
}

var errNoCap = vfs.Errorf(vfs.Corrupt, "the host answered no capability where one belongs")

// Close releases the capability. What was changed with it remains.
func (fs *VirtualFs) Close() error {
	fs.cap.Release()
	return nil
}

// Mount mounts the store that url names at path.
func (fs *VirtualFs) Mount(ctx context.Context, path, url string, a operator.Attenuation) error {
	if a.Bytes < 0 || a.Nodes < 0 {
		return vfs.At(path, vfs.Errorf(vfs.Invalid, "a number of bytes or nodes is negative; 0 is no bound"))
	}
	if err := first(checkPath(path), wire.CheckMount(url, a)); err != nil {
		return vfs.At(path, err)
	}
	return wire.Do(ctx, fs.cap, schema.VirtualFs_mount, func(p schema.VirtualFs_mount_Params, _ *vat.Caps) error {
		w, err := p.NewAttenuation()
		if err != nil {
			return err
		}
		return first(wire.SetAttenuation(w, a), p.SetPath(path), p.SetUrl(url))
	}, nil)
}

// checkPath answers limit for a path that is longer than any host takes. Such a path is
// not sent, since it may not fit into a message.
func checkPath(path string) error {
	if len(path) > vfs.MaxPath {
		return vfs.Errorf(vfs.Limit, "the path is longer than %d bytes", vfs.MaxPath)
	}
	return nil
}

// checkTexts answers tooLarge for texts that do not fit into one message together.
func checkTexts(all ...string) error {
	n := 0
	for _, s := range all {
		n += len(s)
	}
	if n > wire.MaxChunk {
		return vfs.Errorf(vfs.TooLarge, "the texts are more than the %d KiB of one call", wire.MaxChunk>>10)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Unmount removes the mount at path.
func (fs *VirtualFs) Unmount(ctx context.Context, path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	return wire.Do(ctx, fs.cap, schema.VirtualFs_unmount, func(p schema.VirtualFs_unmount_Params, _ *vat.Caps) error {
		return p.SetPath(path)
	}, nil)
}

// Mounts returns every mount, in byte order of paths.
func (fs *VirtualFs) Mounts(ctx context.Context) ([]operator.Mount, error) {
	all := []operator.Mount{}
	cursor := []byte{}
	for more := true; more; {
		err := wire.Do(ctx, fs.cap, schema.VirtualFs_mounts, func(p schema.VirtualFs_mounts_Params, _ *vat.Caps) error {
			return p.SetAfter(cursor)
		}, func(r schema.VirtualFs_mounts_Results, _ *vat.Caps) error {
			page, err := wire.All(wire.Mount)(r.Mounts())
			if err != nil {
				return err
			}
			all = append(all, page...)
			more = r.More() && len(page) > 0
			cursor, err = copied(r.Cursor())
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// copied returns a copy of b that outlives its message.
func copied(b []byte, err error) ([]byte, error) { return append([]byte{}, b...), err }

// Root returns the root of the tree, with a control of its own.
func (fs *VirtualFs) Root(ctx context.Context) (d vfs.Dir, ctl *Control, err error) {
	err = wire.Do(ctx, fs.cap, schema.VirtualFs_root, nil, func(r schema.VirtualFs_root_Results, caps *vat.Caps) error {
		dir, control := caps.Get(r.Dir()), caps.Get(r.Control())
		if dir == nil || control == nil {
			return errNoCap
		}
		d, ctl = client.NewDir(dir.AddRef()), &Control{control.AddRef(), true}
		return nil
	})
	return d, ctl, err
}

// Commit commits the changes of a git mount and returns the id of the commit.
func (fs *VirtualFs) Commit(ctx context.Context, path string, c operator.Commit) (id string, err error) {
	if err := first(checkPath(path), checkTexts(c.Message, c.Author, c.Email, c.Ref, c.Old)); err != nil {
		return "", err
	}
	err = wire.Do(ctx, fs.cap, schema.VirtualFs_commit, func(p schema.VirtualFs_commit_Params, _ *vat.Caps) error {
		w, err := p.NewCommit()
		if err != nil {
			return err
		}
		return first(wire.SetCommit(w, c), p.SetPath(path))
	}, func(r schema.VirtualFs_commit_Results, _ *vat.Caps) error {
		id, err = r.Id()
		return err
	})
	return id, err
}

// Snapshot stores the subtree at path in the content-addressed store that store names.
func (fs *VirtualFs) Snapshot(ctx context.Context, path, store, pin string, progress operator.Progress) (s operator.Snapshot, err error) {
	if err := first(checkPath(path), checkTexts(store, pin)); err != nil {
		return s, err
	}
	told, stop := listen(progress)
	defer stop()
	err = wire.Do(ctx, fs.cap, schema.VirtualFs_snapshot, func(p schema.VirtualFs_snapshot_Params, caps *vat.Caps) error {
		return first(p.SetProgress(caps.Put(told)), p.SetPath(path), p.SetStore(store), p.SetPin(pin))
	}, func(r schema.VirtualFs_snapshot_Results, _ *vat.Caps) error {
		w, err := r.Snapshot()
		if err != nil {
			return err
		}
		s, err = wire.Snapshot(w)
		return err
	})
	return s, err
}

// Help returns the host's description of a VirtualFs, or of one of its methods.
func (fs *VirtualFs) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, fs.cap, schema.VirtualFs_help, method)
}
