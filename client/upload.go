package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// upload writes a whole file: in one message if it fits, and through a Writer
// otherwise.
type upload struct {
	whole func(size int, content io.Reader) (vfs.Version, error)
	stage func() *vat.Cap
}

func (u upload) run(ctx context.Context, r io.Reader) (vfs.Version, error) {
	if n, ok := inMemory(r); ok && n <= wire.MaxWhole {
		if err := ctx.Err(); err != nil {
			return vfs.Version{}, err
		}
		return u.whole(n, r)
	}
	var head bytes.Buffer
	r = cancellable{ctx, r}
	n, err := io.CopyN(&head, r, wire.MaxWhole+1)
	if err == io.EOF {
		return u.whole(head.Len(), &head)
	}
	if err != nil {
		return vfs.Version{}, err
	}
	w := u.stage()
	defer w.Release() // drops what was not committed
	if err := u.copy(ctx, w, io.MultiReader(bytes.NewReader(head.Bytes()[:n]), r)); err != nil {
		return vfs.Version{}, err
	}
	return wire.Ask(ctx, w, schema.Writer_commit, nil, version)
}

// inMemory returns how many bytes r has, if r is a reader of memory.
func inMemory(r io.Reader) (int, bool) {
	switch r := r.(type) {
	case *bytes.Reader:
		return r.Len(), true
	case *bytes.Buffer:
		return r.Len(), true
	case *strings.Reader:
		return r.Len(), true
	}
	return 0, false
}

// fill sets the Data field of the parameters to the size bytes that r has. The bytes of
// a bytes.Buffer or bytes.Reader are sent without a copy.
func fill(caps *vat.Caps, of vat.Field, size int, r io.Reader) error {
	switch r := r.(type) {
	case *bytes.Buffer:
		return caps.Lend(of, r.Next(size))
	case *bytes.Reader:
		var all seen
		if _, err := r.WriteTo(&all); err != nil {
			return err
		}
		return caps.Lend(of, all)
	}
	b, err := caps.Data(of, size)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(r, b)
	return err
}

// seen is a writer that keeps the bytes of one write without copying them.
type seen []byte

func (s *seen) Write(p []byte) (int, error) {
	*s = p
	return len(p), nil
}

// cancellable is a reader that fails once ctx has ended.
type cancellable struct {
	ctx context.Context
	r   io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// copy streams r to a writer, within the window of the connection.
func (u upload) copy(ctx context.Context, w *vat.Cap, r io.Reader) error {
	b := make([]byte, wire.Chunk)
	for {
		n, rerr := io.ReadFull(r, b)
		if n > 0 {
			a := vat.Send(ctx, w, schema.Writer_write, func(_ schema.Writer_write_Params, caps *vat.Caps) error {
				return caps.Lend(schema.Writer_write_Params_data, b[:n])
			})
			err := lost(a)
			a.Release()
			if err != nil {
				return wire.Decode(err)
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		switch rerr {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return wire.Decode(w.Drain(ctx))
		default:
			return rerr
		}
	}
}

// lost returns the error of a call that has failed already, such as one that was never
// sent. What follows it is not the whole content.
func lost(a *vat.Answer[vat.Empty]) error {
	_, _, err := a.Await(over)
	if errors.Is(err, context.Canceled) {
		return nil // it is on its way
	}
	return err
}

var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
