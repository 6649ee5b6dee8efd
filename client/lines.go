package client

import (
	"context"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/lines"
)

var _ lines.Reader = (*File)(nil)

// ReadLines returns a window of the file's lines, and the version of the content that they are of.
func (f *File) ReadLines(ctx context.Context, q lines.Query) (w lines.Window, err error) {
	if q.From < 0 || q.Count < 0 {
		return w, vfs.Errorf(vfs.Invalid, "a line or a number of lines is negative")
	}
	err = do(ctx, &f.ref, schema.File_readLines, func(p schema.File_readLines_Params, _ *vat.Caps) error {
		p.SetStart(uint64(q.From))
		p.SetCount(uint32(min(q.Count, lines.MaxCount)))
		p.SetLast(q.Last)
		return nil
	}, func(r schema.File_readLines_Results, _ *vat.Caps) error {
		w, err = wire.Lines(r)
		return err
	})
	return w, err
}
