package client

import (
	"bytes"
	"context"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// upload writes a whole file: in one message if it fits, staged otherwise.
type upload struct {
	whole func([]byte) (vfs.Version, error)
	stage func() *vat.Cap
}

func (u upload) run(ctx context.Context, r io.Reader) (vfs.Version, error) {
	var head bytes.Buffer
	n, err := io.CopyN(&head, r, wire.MaxWhole+1)
	if err == io.EOF {
		v, err := u.whole(head.Bytes())
		return v, wire.Decode(err)
	}
	if err != nil {
		return vfs.Version{}, err
	}
	w := u.stage()
	defer w.Release() // drops what was not committed
	if err := u.copy(ctx, w, io.MultiReader(bytes.NewReader(head.Bytes()[:n]), r)); err != nil {
		return vfs.Version{}, err
	}
	var v vfs.Version
	err = vat.Do(ctx, w, schema.Writer_commit, nil, func(r schema.Writer_commit_Results, _ *vat.Caps) error {
		v, err = version(r.Version())
		return err
	})
	return v, wire.Decode(err)
}

// copy streams r to a writer, within the window of the connection.
func (u upload) copy(ctx context.Context, w *vat.Cap, r io.Reader) error {
	b := make([]byte, wire.Chunk)
	for {
		n, rerr := io.ReadFull(r, b)
		if n > 0 {
			a := vat.Send(ctx, w, schema.Writer_write, func(p schema.Writer_write_Params, _ *vat.Caps) error { return p.SetData(b[:n]) })
			a.Release()
		}
		switch rerr {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return wire.Decode(w.Drain(ctx))
		default:
			return rerr
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
