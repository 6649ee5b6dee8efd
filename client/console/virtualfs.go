package console

import (
	"cmp"
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/client"
	"capd/operator"
	"capd/vat"
	"capd/vfs"
)

// VirtualFs changes the composition of a host's tree. Its methods behave like those of
// [operator.VirtualFs]. It is safe for concurrent use.
type VirtualFs struct{ cap *vat.Cap }

var _ operator.VirtualFs = (*VirtualFs)(nil)

// VirtualFs returns the VirtualFs of the host. It answers unsupported if the host
// serves a fixed tree.
func (c *Console) VirtualFs(ctx context.Context) (*VirtualFs, error) {
	held, err := wire.Ask(ctx, c.cap, schema.Console_virtualFs, nil, func(r schema.Console_virtualFs_Results, caps *vat.Caps) (*vat.Cap, error) {
		return wire.Held(caps.Get(r.Fs()))
	})
	if err != nil {
		return nil, err
	}
	return &VirtualFs{held}, nil
}

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
	if err := cmp.Or(checkPath(path), wire.CheckMount(url, a)); err != nil {
		return vfs.At(path, err)
	}
	return wire.Do(ctx, fs.cap, schema.VirtualFs_mount, func(p schema.VirtualFs_mount_Params, _ *vat.Caps) error {
		w, err := p.NewAttenuation()
		if err != nil {
			return err
		}
		return cmp.Or(wire.SetAttenuation(w, a), p.SetPath(path), p.SetUrl(url))
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
		dir, err := wire.Held(caps.Get(r.Dir()))
		if err != nil {
			return err
		}
		d = client.NewDir(dir)
		control, err := wire.Held(caps.Get(r.Control()))
		ctl = &Control{control, true}
		return err
	})
	return d, ctl, err
}

// Commit commits the changes of a git mount and returns the id of the commit.
func (fs *VirtualFs) Commit(ctx context.Context, path string, c operator.Commit) (string, error) {
	if err := cmp.Or(checkPath(path), checkTexts(c.Message, c.Author, c.Email, c.Ref, c.Old)); err != nil {
		return "", err
	}
	return wire.Ask(ctx, fs.cap, schema.VirtualFs_commit, func(p schema.VirtualFs_commit_Params, _ *vat.Caps) error {
		w, err := p.NewCommit()
		if err != nil {
			return err
		}
		return cmp.Or(wire.SetCommit(w, c), p.SetPath(path))
	}, func(r schema.VirtualFs_commit_Results, _ *vat.Caps) (string, error) { return r.Id() })
}

// Snapshot stores the subtree at path in the content-addressed store that store names.
func (fs *VirtualFs) Snapshot(ctx context.Context, path, store, pin string, progress operator.Progress) (operator.Snapshot, error) {
	if err := cmp.Or(checkPath(path), checkTexts(store, pin)); err != nil {
		return operator.Snapshot{}, err
	}
	told, stop := listen(progress)
	defer stop()
	return wire.Ask(ctx, fs.cap, schema.VirtualFs_snapshot, func(p schema.VirtualFs_snapshot_Params, caps *vat.Caps) error {
		return cmp.Or(p.SetProgress(caps.Put(told)), p.SetPath(path), p.SetStore(store), p.SetPin(pin))
	}, func(r schema.VirtualFs_snapshot_Results, _ *vat.Caps) (operator.Snapshot, error) {
		return wire.One(wire.Snapshot)(r.Snapshot())
	})
}

// Help returns the host's description of a VirtualFs, or of one of its methods.
func (fs *VirtualFs) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, fs.cap, schema.VirtualFs_help, method)
}
