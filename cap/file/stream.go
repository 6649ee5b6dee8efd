package file

import (
	"context"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// stream writes a part of one content to the caller's sink. The sink may be hostile: it
// has a window and a deadline, and its errors are not passed on as errors of the file.
func (s *server) stream(c vat.Call[schema.File_stream_Params, schema.File_stream_Results]) error {
	sink := c.Caps().Get(c.Params().Sink())
	if sink == nil {
		return s.at(vfs.Errorf(vfs.Invalid, "stream needs a sink"))
	}
	off, err := wire.Offset(c.Params().Offset())
	if err != nil {
		return s.at(err)
	}
	length, err := wire.Offset(c.Params().Length())
	if err != nil {
		return s.at(err)
	}
	sent, err := Send(c.Context(), s.file, sink, func(ctx context.Context, to *Pump) error {
		content, err := vfs.Open(ctx, s.file)
		if err != nil {
			return err
		}
		defer content.Close()
		if rest := max(content.Size()-off, 0); length == 0 || length > rest {
			length = rest
		}
		_, err = to.ReadFrom(io.NewSectionReader(content, off, length))
		return err
	})
	if err != nil {
		return s.at(err)
	}
	c.Results().SetBytes(uint64(sent))
	return nil
}
