package dir

import (
	"context"
	"errors"

	"capnproto.org/go/capnp/v3"

	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/membrane"
)

// moveParams are those of a move or a copy.
type moveParams interface {
	PathBytes() ([]byte, error)
	NewPathBytes() ([]byte, error)
	IfVersion() (schema.IfVersion, error)
	HasIfVersion() bool
	IfTarget() (schema.IfVersion, error)
	HasIfTarget() bool
	Replace() bool
	HasDst() bool
	Dst() capnp.Interface
}

// onTarget reads the condition on what is to be overwritten.
type onTarget struct{ moveParams }

func (p onTarget) IfVersion() (schema.IfVersion, error) { return p.IfTarget() }
func (p onTarget) HasIfVersion() bool                   { return p.HasIfTarget() }

func (s *server) move(c vat.Call[schema.Dir_move_Params, schema.Dir_move_Results]) error {
	return s.ends(c.Context(), c.Caps(), c.Params(), membrane.OpRename, vfs.Dir.Rename)
}

func (s *server) copy(c vat.Call[schema.Dir_copy_Params, schema.Dir_copy_Results]) error {
	return s.ends(c.Context(), c.Caps(), c.Params(), membrane.OpCopy, func(src vfs.Dir, ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
		done, err := change.Copy(ctx, src, name, dst, newName, from, to)
		if err == nil {
			c.Results().SetEntries(uint64(done.Entries))
			c.Results().SetSizeBytes(uint64(done.Bytes))
		}
		return err
	})
}

// ends opens both ends of a move or a copy, and calls do with them. An error of do is about one of them.
func (s *server) ends(ctx context.Context, caps *vat.Caps, p moveParams, op membrane.OpKind, do func(src vfs.Dir, ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error) (err error) {
	path, from, err := s.target(p.PathBytes, p)
	if err != nil {
		return err
	}
	newPath, to, err := s.target(p.NewPathBytes, onTarget{p})
	if err != nil {
		return err
	}
	onto := membrane.Onto(op)
	if to.Over = p.Replace(); to.Over {
		onto = membrane.Over(op)
	}
	dst, err := s.destination(ctx, caps, p, newPath)
	if err != nil {
		return err
	}
	defer func() { err = membrane.Refusal(ctx, dst, newPath, onto, err) }()
	src, name, release, err := vfs.WalkParent(ctx, s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer release()
	tgt, newName, release, err := vfs.WalkParent(ctx, dst, newPath)
	if err != nil {
		return vfs.At(newPath, err)
	}
	defer release()
	if err = do(src, ctx, name, tgt, newName, from, to); err == nil {
		return nil
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" && op == membrane.OpCopy { // below what is copied
		path, newPath = vfs.Join(path, e.Path), vfs.Join(newPath, e.Path)
	}
	switch vfs.CodeOf(err) {
	case vfs.Exists, vfs.IsDir, vfs.NotDir:
		return vfs.At(newPath, err)
	case vfs.NotEmpty:
		if to.Over {
			return vfs.At(newPath, err)
		}
	}
	return vfs.At(path, err)
}

// destination returns the Dir of this host that a call names as dst, or this one. An error is about newPath.
func (s *server) destination(ctx context.Context, caps *vat.Caps, p interface {
	HasDst() bool
	Dst() capnp.Interface
}, newPath string) (vfs.Dir, error) {
	if !p.HasDst() {
		return s.dir, nil
	}
	to := caps.Get(p.Dst())
	if to == nil {
		return nil, vfs.At(newPath, vfs.Errorf(vfs.Invalid, "dst is not a capability"))
	}
	if err := wire.Settle(ctx, to); err != nil {
		return nil, err
	}
	if _, isFile := file.Of(to); isFile {
		return nil, vfs.At(newPath, vfs.Errorf(vfs.NotDir, "dst is a File; name a Dir"))
	}
	d, ok := Of(to)
	if !ok {
		return nil, vfs.At(newPath, vfs.Errorf(vfs.Unsupported, "dst is not a Dir of this connection; share a Dir of another connection there and restore it here, or copy"))
	}
	return d, nil
}
