package client

import (
	"cmp"
	"context"
	"io"
	"math"

	"capnproto.org/go/capnp/v3"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
)

// Archived says what an archive has.
type Archived struct {
	Entries int64   // files, directories and links
	Bytes   int64   // of the archive
	Missed  []error // what was left out, with its path: at most the first 1000
}

// Archive writes the directory at path, or this one if path is empty, to w as an archive: zip, tar, tar.gz or tar.zst. What w has got
// before an error is no archive. Archive answers the errors of w unchanged.
func (d *Dir) Archive(ctx context.Context, path, format string, w io.Writer) (a Archived, err error) {
	if err := d.open(); err != nil {
		return a, err
	}
	if path != "" {
		if err := d.at(path); err != nil {
			return a, err
		}
	}
	a.Bytes, err = receive(ctx, w, math.MaxInt64, func(to func(*vat.Caps) capnp.Interface) (n uint64, err error) {
		err = wire.Do(ctx, d.cap, schema.Dir_archive, func(p schema.Dir_archive_Params, caps *vat.Caps) error {
			return cmp.Or(p.SetPath(path), p.SetFormat(format), p.SetSink(to(caps)))
		}, func(r schema.Dir_archive_Results, _ *vat.Caps) error {
			n, a.Entries = r.Bytes(), int64(r.Entries())
			a.Missed, err = missedIn(r.Missed())
			return err
		})
		return n, err
	})
	return a, err
}
