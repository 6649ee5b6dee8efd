package file

import (
	"context"
	"crypto/sha256"
	"io"
	"unicode/utf8"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/lines"
)

// Reads go directly into the memory of the results. That memory may contain anything,
// so what was not read is cut off.

// tryBytes is the longest read that is tried without waiting, in bytes.
const tryBytes = 64 << 10

// heavyBytes is the size from which reading a whole content and its version is a heavy
// call.
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
	c.Results().SetEof(err == io.EOF && (n < length || length == 0))
	return nil
}

// whole reads a whole content into memory that room returns for its size. It passes
// what it read to use.
func (s *server) whole(ctx context.Context, weigh func(int64) error, room func(size int) ([]byte, error), use func([]byte) error) (vfs.Version, error) {
	c, err := vfs.Open(ctx, s.file)
	if err != nil {
		return vfs.Version{}, err
	}
	defer c.Close()
	if c.Size() > wire.MaxWhole {
		return vfs.Version{}, vfs.Errorf(vfs.TooLarge, "it is %d bytes, more than the %d of one message; ask for a window of it with readLines(start: 1, count: %d) or read(offset: 0, length: %d), or use stream",
			c.Size(), wire.MaxWhole, lines.DefaultCount, wire.MaxChunk)
	}
	b, err := room(int(c.Size()))
	if err != nil {
		return vfs.Version{}, err
	}
	if err := weigh(c.Size()); err != nil {
		return vfs.Version{}, err
	}
	n, err := c.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return vfs.Version{}, err
	}
	// The version is that of these bytes. The store may know another: a program that
	// maps the file can change it without changing its times.
	v := vfs.Version(sha256.Sum256(b[:n]))
	return v, use(b[:n])
}

// text is the index of the field text in the results of File.readText. A Text is Data
// that ends in a zero byte.
const text vat.Field = 0

func (s *server) readText(c vat.Call[schema.File_readText_Params, schema.File_readText_Results]) error {
	var all []byte // with the zero byte
	v, err := s.whole(c.Context(), c.Weigh, func(size int) (_ []byte, err error) {
		if all, err = c.Data(text, size+1); err != nil {
			return nil, err
		}
		return all[:size], nil
	}, func(b []byte) error {
		if !utf8.Valid(b) {
			return vfs.Errorf(vfs.Invalid, "the content is not UTF-8 text; use readBytes")
		}
		all[len(b)] = 0
		c.Cut(len(b) + 1)
		return nil
	})
	if err != nil {
		return s.at(err)
	}
	return c.Results().SetVersion(v[:])
}

func (s *server) readBytes(c vat.Call[schema.File_readBytes_Params, schema.File_readBytes_Results]) error {
	v, err := s.whole(c.Context(), c.Weigh, func(size int) ([]byte, error) {
		return c.Data(schema.File_readBytes_Results_data, size)
	}, func(b []byte) error {
		c.Cut(len(b))
		return nil
	})
	if err != nil {
		return s.at(err)
	}
	return c.Results().SetVersion(v[:])
}
