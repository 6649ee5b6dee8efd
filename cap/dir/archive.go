package dir

import (
	"context"

	"capd/archive"
	"capd/cap/file"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/copier"
	"capd/vfs/membrane"
)

// maxArchived bounds the entries of an archive that is made. What is read is sent on, and not held.
const maxArchived = 1_000_000

func (s *server) archive(c vat.Call[schema.Dir_archive_Params, schema.Dir_archive_Results]) error {
	path, err := wire.Path(c.Params().PathBytes())
	if err != nil {
		return err
	}
	name, err := c.Params().Format()
	if err != nil {
		return err
	}
	format, err := archive.ParseFormat(name)
	if err != nil {
		return vfs.At(path, err)
	}
	sink := c.Caps().Get(c.Params().Sink())
	if sink == nil {
		return vfs.At(path, vfs.Errorf(vfs.Invalid, "archive needs a sink"))
	}
	if err := membrane.May(s.dir, membrane.To(membrane.OpArchive)); err != nil {
		return vfs.At(path, err)
	}
	d := s.dir
	if path != "" {
		n, err := vfs.Walk(c.Context(), s.dir, path)
		if err != nil {
			return vfs.At(path, err)
		}
		if d, err = vfs.AsDir(n); err != nil {
			return vfs.At(path, err)
		}
		defer d.Close()
	}
	var done copier.Progress
	var left []missed
	o := copier.Options{
		Limits:   copier.Limits{Entries: maxArchived},
		Progress: func(p copier.Progress) { done = p },
		Skip: func(u copier.Unread) error {
			if code := vfs.CodeOf(u.Err); code == vfs.Revoked || code == vfs.Expired {
				return u.Err
			}
			if len(left) < maxMissed {
				left = append(left, missed{u.Path, u.Err})
			}
			return nil
		},
	}
	sent, err := file.Send(c.Context(), d, sink, func(ctx context.Context, to *file.Pump) error {
		return archive.Write(ctx, d, to, format, o)
	})
	if err != nil {
		return vfs.At(path, err)
	}
	r := c.Results()
	r.SetEntries(uint64(done.Entries()))
	r.SetBytes(uint64(sent))
	return setMissed(left, r.NewMissed)
}
