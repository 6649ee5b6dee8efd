package client

import (
	"cmp"
	"context"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// Dir is a directory that a host serves. It implements vfs.Dir and has more methods of
// its own. Methods without a context return a promise at once: calls on the promise are
// sent without waiting, and an error shows where it is used.
type Dir struct{ ref }

var (
	_ vfs.Dir        = (*Dir)(nil)
	_ vfs.Walker     = (*Dir)(nil)
	_ vfs.StatWalker = (*Dir)(nil)
	_ vfs.ListWalker = (*Dir)(nil)
	_ vfs.ReadWalker = (*Dir)(nil)
	_ vfs.Duper      = (*Dir)(nil)
	_ vfs.LinkMaker  = (*Dir)(nil)
)

// NewDir returns the directory that c, a capability to a Dir, stands for. It takes c
// over.
func NewDir(c *vat.Cap) *Dir { return newDir(c) }

func newDir(c *vat.Cap) *Dir { return &Dir{ref{cap: c}} }

// at answers stale if d is closed, and limit if path is longer than any host takes.
// Such a path is not sent, since it may not fit into a message.
func (d *Dir) at(path string) error {
	if err := d.open(); err != nil {
		return err
	}
	if len(path) > vfs.MaxPath {
		return vfs.Errorf(vfs.Limit, "the path is longer than %d bytes; open a Dir on the way", vfs.MaxPath)
	}
	return nil
}

// ReadOnly returns the same directory without the right to change anything in it.
func (d *Dir) ReadOnly() *Dir {
	return newDir(derived(d.open(), d.cap, schema.Dir_readOnly, nil, schema.Dir_readOnly_Results_dir))
}

// Temp makes an empty directory of the guest's own, which cannot be shared. It is removed, with what is in it, when neither it
// nor anything reached through it is open any more, and when the connection ends. It has the rights of d, and is locked and revoked
// with d. It is both a source and a target of Move and Copy.
func (d *Dir) Temp() *Dir {
	return newDir(derived(d.open(), d.cap, schema.Dir_temp, nil, schema.Dir_temp_Results_dir))
}

// SubDir returns the directory at path. Its holder can reach nothing outside of it.
func (d *Dir) SubDir(path string) *Dir {
	return newDir(derived(d.at(path), d.cap, schema.Dir_subDir, func(p schema.Dir_subDir_Params, _ *vat.Caps) error {
		return p.SetPath(path)
	}, schema.Dir_subDir_Results_dir))
}

// OpenFile returns the file at path.
func (d *Dir) OpenFile(path string) *File {
	return newFile(derived(d.at(path), d.cap, schema.Dir_openFile, func(p schema.Dir_openFile_Params, _ *vat.Caps) error {
		return p.SetPath(path)
	}, schema.Dir_openFile_Results_file))
}

// Revocable returns another capability to the same directory, and its Revoker.
func (d *Dir) Revocable() (*Dir, *Revoker) {
	if err := d.open(); err != nil {
		return newDir(broken(err)), &Revoker{broken(err)}
	}
	a := vat.Send(context.Background(), d.cap, schema.Dir_revocable, nil)
	defer a.Release()
	return newDir(a.Cap(schema.Dir_revocable_Results_dir)), &Revoker{a.Cap(schema.Dir_revocable_Results_revoker)}
}

// Dup implements vfs.Duper.
func (d *Dir) Dup() (vfs.Node, error) { return again(&d.ref, newDir) }

// Help returns the host's description of a Dir, or of one of its methods.
func (d *Dir) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, d.cap, schema.Dir_help, method)
}

// Stat implements vfs.Node.
func (d *Dir) Stat(ctx context.Context) (vfs.Info, error) {
	return ask(ctx, &d.ref, schema.Dir_stat, nil, func(r schema.Dir_stat_Results, _ *vat.Caps) (vfs.Info, error) {
		st, err := r.Stat()
		return infoOf(st, err, vfs.DirKind)
	})
}

// infoOf reads the stat of a node that has to be of this kind.
func infoOf(st schema.Stat, err error, kind vfs.Kind) (vfs.Info, error) {
	if err != nil {
		return vfs.Info{}, err
	}
	info, err := wire.Info(st)
	if err == nil && info.Kind != kind {
		return vfs.Info{}, vfs.Errorf(vfs.Corrupt, "the host says that a %v is a %v", kind, info.Kind)
	}
	return info, err
}

// Lookup implements vfs.Dir.
func (d *Dir) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	if err := cmp.Or(d.open(), vfs.CheckName(name)); err != nil {
		return nil, err
	}
	return wire.Ask(ctx, d.cap, schema.Dir_get, func(p schema.Dir_get_Params, _ *vat.Caps) error {
		return p.SetName(name)
	}, func(r schema.Dir_get_Results, caps *vat.Caps) (vfs.Node, error) {
		w, err := r.Node()
		return d.node(w, err, caps, name)
	})
}

// Walk implements vfs.Walker, in one call.
func (d *Dir) Walk(ctx context.Context, path string, follow bool) (vfs.Node, error) {
	if err := d.at(path); err != nil {
		return nil, err
	}
	return wire.Ask(ctx, d.cap, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetNoFollow(!follow)
		return p.SetPath(path)
	}, func(r schema.Dir_walk_Results, caps *vat.Caps) (vfs.Node, error) {
		w, err := r.Node()
		return d.node(w, err, caps, path)
	})
}

// WalkStat implements vfs.StatWalker, in one call and without a capability to release.
// [vfs.StatAt] uses it.
func (d *Dir) WalkStat(ctx context.Context, path string, follow bool) (vfs.Info, error) {
	if err := d.at(path); err != nil {
		return vfs.Info{}, err
	}
	return wire.Ask(ctx, d.cap, schema.Dir_walk, func(p schema.Dir_walk_Params, _ *vat.Caps) error {
		p.SetNoFollow(!follow)
		p.SetStatOnly(true)
		return p.SetPath(path)
	}, func(r schema.Dir_walk_Results, _ *vat.Caps) (vfs.Info, error) {
		w, err := r.Node()
		if err != nil {
			return vfs.Info{}, err
		}
		st, err := w.Stat()
		if err != nil {
			return vfs.Info{}, err
		}
		return wire.Info(st)
	})
}

// WalkRead implements [vfs.ReadWalker], in one round trip.
func (d *Dir) WalkRead(ctx context.Context, path string) ([]byte, error) {
	f := d.OpenFile(path)
	defer f.Close()
	b, _, err := f.ReadBytes(ctx)
	return b, err
}

// node reads the node at path from results, which may be malformed or hostile.
func (d *Dir) node(w schema.Node, err error, caps *vat.Caps, path string) (vfs.Node, error) {
	if err != nil {
		return nil, err
	}
	switch w.Which() {
	case schema.Node_Which_dir:
		return asNode(held(caps.Get(w.Dir()), newDir))
	case schema.Node_Which_file:
		return asNode(held(caps.Get(w.File()), newFile))
	case schema.Node_Which_link:
		return &link{ref: ref{cap: d.cap.AddRef()}, path: path}, nil
	}
	return nil, vfs.Errorf(vfs.Corrupt, "the host answered something that is not a node")
}

// asNode returns n, or an untyped nil if there is an error.
func asNode[N vfs.Node](n N, err error) (vfs.Node, error) {
	if err != nil {
		return nil, err
	}
	return n, nil
}

// Create implements vfs.Dir.
func (d *Dir) Create(ctx context.Context, name string) (vfs.File, error) {
	if err := cmp.Or(d.open(), vfs.CheckName(name)); err != nil {
		return nil, err
	}
	f, err := d.CreateFile(ctx, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// CreateFile makes an empty file at path.
func (d *Dir) CreateFile(ctx context.Context, path string) (*File, error) {
	if err := d.at(path); err != nil {
		return nil, err
	}
	return wire.Ask(ctx, d.cap, schema.Dir_createFile, func(p schema.Dir_createFile_Params, _ *vat.Caps) error {
		return p.SetPath(path)
	}, func(r schema.Dir_createFile_Results, caps *vat.Caps) (*File, error) {
		return held(caps.Get(r.File()), newFile)
	})
}

// Mkdir implements vfs.Dir.
func (d *Dir) Mkdir(ctx context.Context, name string) (vfs.Dir, error) {
	if err := cmp.Or(d.open(), vfs.CheckName(name)); err != nil {
		return nil, err
	}
	sub, err := d.CreateDir(ctx, name)
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// CreateDir makes an empty directory at path.
func (d *Dir) CreateDir(ctx context.Context, path string) (*Dir, error) {
	if err := d.at(path); err != nil {
		return nil, err
	}
	return wire.Ask(ctx, d.cap, schema.Dir_createDir, func(p schema.Dir_createDir_Params, _ *vat.Caps) error {
		return p.SetPath(path)
	}, func(r schema.Dir_createDir_Results, caps *vat.Caps) (*Dir, error) {
		return held(caps.Get(r.Dir()), newDir)
	})
}

// Replace implements vfs.Dir.
func (d *Dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	if err := vfs.CheckName(name); err != nil {
		return vfs.Version{}, cmp.Or(d.open(), err)
	}
	return d.put(ctx, name, r, c, true)
}

// Put replaces the whole content of the file at path with what it reads from r, of any
// size. It creates the file if there is none. If the last name of path is a link, Put
// follows it to an existing file.
func (d *Dir) Put(ctx context.Context, path string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.put(ctx, path, r, c, false)
}

func (d *Dir) put(ctx context.Context, path string, r io.Reader, c vfs.If, noFollow bool) (vfs.Version, error) {
	if err := d.at(path); err != nil {
		return vfs.Version{}, err
	}
	return upload{
		whole: func(size int, content io.Reader) (vfs.Version, error) {
			return wire.Ask(ctx, d.cap, schema.Dir_put, func(p schema.Dir_put_Params, caps *vat.Caps) error {
				p.SetNoFollow(noFollow)
				return cmp.Or(p.SetPath(path), fill(caps, schema.Dir_put_Params_data, size, content), wire.SetIf(c, p.NewIfVersion))
			}, version)
		},
		stage: func() *vat.Cap {
			return promised(ctx, d.cap, schema.Dir_stage, func(p schema.Dir_stage_Params, _ *vat.Caps) error {
				p.SetNoFollow(noFollow)
				return cmp.Or(p.SetPath(path), wire.SetIf(c, p.NewIfVersion))
			}, schema.Dir_stage_Results_writer)
		},
	}.run(ctx, r)
}

// Remove implements vfs.Dir.
func (d *Dir) Remove(ctx context.Context, name string, c vfs.If) error {
	if err := cmp.Or(d.open(), vfs.CheckName(name)); err != nil {
		return err
	}
	return d.RemovePath(ctx, name, c)
}

// RemovePath removes the file, the link itself or the empty directory at path.
func (d *Dir) RemovePath(ctx context.Context, path string, c vfs.If) error {
	if err := d.at(path); err != nil {
		return err
	}
	return wire.Do(ctx, d.cap, schema.Dir_remove, func(p schema.Dir_remove_Params, _ *vat.Caps) error {
		return cmp.Or(p.SetPath(path), wire.SetIf(c, p.NewIfVersion))
	}, nil)
}

// Rename implements vfs.Dir. It answers crossDevice if dst is not a *Dir.
func (d *Dir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if err := cmp.Or(d.open(), vfs.CheckName(name), vfs.CheckName(newName)); err != nil {
		return err
	}
	t, ok := dst.(*Dir)
	if !ok {
		return vfs.Errorf(vfs.CrossDevice, "the target is not of this host; copy instead")
	}
	return d.Move(ctx, name, t, newName, from, to)
}

// Copied is what a copy has copied: files, directories and links, and the bytes of the files.
type Copied struct{ Entries, Bytes int64 }

// Copy copies the file or directory at path, with everything in it, to newPath in dst: all of it or nothing. If to says Over, a file
// that is there is replaced by a file. See help("Dir.copy").
func (d *Dir) Copy(ctx context.Context, path string, dst *Dir, newPath string, from, to vfs.If) (done Copied, err error) {
	if err := cmp.Or(d.at(path), dst.at(newPath)); err != nil {
		return done, err
	}
	err = dst.lent(wire.Do(ctx, d.cap, schema.Dir_copy, func(p schema.Dir_copy_Params, caps *vat.Caps) error {
		p.SetReplace(to.Over)
		return cmp.Or(dst.lend(caps, p.SetDst), p.SetPath(path), p.SetNewPath(newPath),
			wire.SetIf(from, p.NewIfVersion), wire.SetIf(to, p.NewIfTarget))
	}, func(r schema.Dir_copy_Results, _ *vat.Caps) error {
		done = Copied{int64(r.Entries()), int64(r.SizeBytes())}
		return nil
	}))
	return done, err
}

// Extract extracts the archive at path to newPath in dst: all of it or nothing. newPath may be "" for dst itself. See
// help("Dir.extract").
func (d *Dir) Extract(ctx context.Context, path string, dst *Dir, newPath string) (done Copied, err error) {
	if err := cmp.Or(d.at(path), dst.at(newPath)); err != nil {
		return done, err
	}
	err = dst.lent(wire.Do(ctx, d.cap, schema.Dir_extract, func(p schema.Dir_extract_Params, caps *vat.Caps) error {
		return cmp.Or(dst.lend(caps, p.SetDst), p.SetPath(path), p.SetNewPath(newPath))
	}, func(r schema.Dir_extract_Results, _ *vat.Caps) error {
		done = Copied{int64(r.Entries()), int64(r.SizeBytes())}
		return nil
	}))
	return done, err
}

// CopyTo is Copy of an entry, for [vfs.Dir]s. It answers crossDevice for a dst that is not of this host.
func (d *Dir) CopyTo(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) (entries, bytes int64, err error) {
	if err := cmp.Or(d.open(), vfs.CheckName(name), vfs.CheckName(newName)); err != nil {
		return 0, 0, err
	}
	t, ok := dst.(*Dir)
	if !ok {
		return 0, 0, vfs.Errorf(vfs.CrossDevice, "the target is not of this host; read it here and put it there")
	}
	done, err := d.Copy(ctx, name, t, newName, from, to)
	return done.Entries, done.Bytes, err
}

// MakeLink implements [vfs.LinkMaker]: it makes a link at path with the text target, which is a path from the directory of the link. The link must stay in d, and in
// what the host granted. See help("Dir.symlink").
func (d *Dir) MakeLink(ctx context.Context, path, target string) error {
	if err := cmp.Or(d.at(path), vfs.CheckTarget(target)); err != nil {
		return err
	}
	return wire.Do(ctx, d.cap, schema.Dir_symlink, func(p schema.Dir_symlink_Params, _ *vat.Caps) error {
		return cmp.Or(p.SetPath(path), p.SetTarget(target))
	}, nil)
}

// Move moves the node at path to newPath in dst. If to says Over, what is there is replaced.
func (d *Dir) Move(ctx context.Context, path string, dst *Dir, newPath string, from, to vfs.If) error {
	if err := cmp.Or(d.at(path), dst.at(newPath)); err != nil {
		return err
	}
	return dst.lent(wire.Do(ctx, d.cap, schema.Dir_move, func(p schema.Dir_move_Params, caps *vat.Caps) error {
		p.SetReplace(to.Over)
		return cmp.Or(dst.lend(caps, p.SetDst), p.SetPath(path), p.SetNewPath(newPath),
			wire.SetIf(from, p.NewIfVersion), wire.SetIf(to, p.NewIfTarget))
	}, nil))
}
