package file

import (
	"context"
	"io"
	"unicode/utf8"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// What is read goes straight into the message that answers it. That memory holds
// anything before: what was not read to is cut off.

// tryBytes is the longest read that is tried without waiting.
const tryBytes = 64 << 10

// heavyBytes is from which size on reading a whole content, and its version, is a
// heavy call.
const heavyBytes = 256 << 10

func (s *server) read(c vat.Call[schema.File_read_Params, schema.File_read_Results]) error {
	off, err := wire.Offset(c.Params().Offset())
	if err != nil {
		return s.at(err)
	}
	length := int(c.Params().Length())
	if err := wire.CheckChunk(length); err != nil {
		return s.at(err)
	}
	if c.Trying() && (length > tryBytes || !vfs.CanTry(s.file)) {
		return vat.ErrWouldBlock
	}
	b, err := c.Data(schema.File_read_Results_data, length)
	if err != nil {
		return err
	}
	n, err := s.file.ReadAt(wire.Look(c), b, off)
	if err != nil && err != io.EOF {
		return wire.Looked(s.path, err)
	}
	c.Cut(n)
	r, rerr := c.Results()
	if rerr != nil {
		return rerr
	}
	r.SetEof(err == io.EOF)
	return nil
}

// whole reads one whole content into memory that room gives for its size, and cut
// shortens.
func (s *server) whole(ctx context.Context, room func(size int) ([]byte, error), cut func(size int)) ([]byte, vfs.Version, error) {
	c, err := vfs.Open(ctx, s.file)
	if err != nil {
		return nil, vfs.Version{}, err
	}
	defer c.Close()
	if c.Size() > wire.MaxWhole {
		return nil, vfs.Version{}, vfs.Errorf(vfs.TooLarge, "it is %d bytes, more than the %d of one message; use read or stream", c.Size(), wire.MaxWhole)
	}
	b, err := room(int(c.Size()))
	if err != nil {
		return nil, vfs.Version{}, err
	}
	if c.Size() > heavyBytes {
		done, err := s.scope.Look(ctx)
		if err != nil {
			return nil, vfs.Version{}, err
		}
		defer done()
	}
	n, err := c.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, vfs.Version{}, err
	}
	cut(n)
	return b[:n], vfs.Sum(c, b[:n]), nil
}

// text is the place of the field text of File.readText's results. A Text is Data
// that ends in a zero.
const text vat.Field = 0

func (s *server) readText(c vat.Call[schema.File_readText_Params, schema.File_readText_Results]) error {
	var all []byte // and the zero
	b, v, err := s.whole(c.Context(), func(size int) (_ []byte, err error) {
		if all, err = c.Data(text, size+1); err != nil {
			return nil, err
		}
		return all[:size], nil
	}, func(size int) {
		all[size] = 0
		c.Cut(size + 1)
	})
	if err != nil {
		return s.at(err)
	}
	if !utf8.Valid(b) {
		return s.at(vfs.Errorf(vfs.Invalid, "the content is not UTF-8 text; use readBytes"))
	}
	r, err := c.Results()
	if err != nil {
		return err
	}
	return r.SetVersion(v[:])
}

func (s *server) readBytes(c vat.Call[schema.File_readBytes_Params, schema.File_readBytes_Results]) error {
	_, v, err := s.whole(c.Context(), func(size int) ([]byte, error) {
		return c.Data(schema.File_readBytes_Results_data, size)
	}, c.Cut)
	if err != nil {
		return s.at(err)
	}
	r, err := c.Results()
	if err != nil {
		return err
	}
	return r.SetVersion(v[:])
}
