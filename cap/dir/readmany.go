package dir

import (
	"context"
	"crypto/sha256"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

func (s *server) readMany(c vat.Call[schema.Dir_readMany_Params, schema.Dir_readMany_Results]) error {
	paths, err := wire.Param(c.Params().Paths())
	if err != nil {
		return err
	}
	if paths.Len() > wire.MaxMany {
		return vfs.Errorf(vfs.TooLarge, "%d paths are more than the %d of one call; use several", paths.Len(), wire.MaxMany)
	}
	if err := s.mayReadMany(); err != nil {
		return err
	}
	ctx := vfs.Unasked(c.Context())
	m := many{left: wire.MaxWhole}
	room := 0
	for i := range paths.Len() {
		path, err := wire.Path(paths.BytesAt(i))
		if err == nil {
			err = m.read(ctx, s.dir, path)
		}
		if err == errFull {
			break
		}
		if err != nil {
			why, err := s.unread(ctx, path, err)
			if err != nil {
				return err
			}
			m.all = append(m.all, wire.Content{Err: why})
		}
		room += m.all[len(m.all)-1].Bytes()
	}
	r, err := c.ResultsFor(room)
	if err != nil {
		return err
	}
	if err := s.mayReadMany(); err != nil { // what was read first may have been revoked since
		return err
	}
	return wire.SetAll(m.all, r.NewFiles, wire.SetContent)
}

// mayReadMany answers an error if s has lost what every read needs. A policy that asks before
// reads of the directory may not ask before those of its files.
func (s *server) mayReadMany() error {
	err := membrane.May(s.dir, membrane.To(membrane.OpRead))
	if vfs.CodeOf(err) == vfs.AskDenied {
		return nil
	}
	return vfs.At("", err)
}

// unread returns why the file at path, one of many, could not be read with err, or an error
// that ends the call.
func (s *server) unread(ctx context.Context, path string, err error) (why, end error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	err = membrane.Refusal(ctx, s.dir, path, membrane.To(membrane.OpRead), err)
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired, vfs.Busy: // of them all
		return nil, vfs.At(path, err)
	}
	membrane.Denied(s.dir, membrane.OpRead, path, "", err)
	return err, nil
}

// many is the contents of many files, as one call answers them.
type many struct {
	all  []wire.Content
	left int64 // how many bytes of content still fit
}

// errFull is the error for a content that does not fit beside those before it.
var errFull = vfs.Errorf(vfs.TooLarge, "the contents do not fit into one message")

// read adds the content of the file at path.
func (m *many) read(ctx context.Context, d vfs.Dir, path string) error {
	if err := meter.Yield(ctx); err != nil {
		return err
	}
	n, err := vfs.Walk(ctx, d, path)
	if err != nil {
		return err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return err
	}
	defer c.Close()
	size := c.Size()
	switch {
	case size > wire.MaxWhole:
		return vfs.Errorf(vfs.TooLarge, "it is %d bytes, more than the %d of one message; use read or stream", size, wire.MaxWhole)
	case size > m.left && len(m.all) > 0:
		return errFull
	}
	b := make([]byte, size)
	read, err := c.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return err
	}
	b = b[:read]
	m.left -= int64(read)
	m.all = append(m.all, wire.Content{Data: b, Version: sha256.Sum256(b)})
	return nil
}
