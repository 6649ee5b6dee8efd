package file

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// stalled is how long a sink may take nothing. Tests shorten it.
var stalled = 30 * time.Second

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
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	defer membrane.OnRevoke(s.file, func(err error) { cancel(err) })()

	content, err := vfs.Open(ctx, s.file)
	if err != nil {
		return s.at(err)
	}
	defer content.Close()
	if rest := max(content.Size()-off, 0); length == 0 || length > rest {
		length = rest
	}
	p := &pump{ctx: ctx, sink: sink}
	err = p.run(io.NewSectionReader(content, off, length))
	p.drop()
	if cause := context.Cause(ctx); cause != nil && c.Context().Err() == nil {
		err = cause // revoked: that ended the wait
	}
	if err != nil {
		return s.at(err)
	}
	c.Results().SetBytes(uint64(p.sent))
	return nil
}

// pump writes to a sink. It keeps the unanswered bytes below wire.Window by some
// margin, so that the connection's own window, which counts whole messages, never
// fills.
type pump struct {
	ctx      context.Context
	sink     *vat.Cap
	sent     int64
	inFlight int
	answers  []sentChunk
}

// sinkWrite is Sink.write as an ordinary call: pump has a window of its own, and needs
// to cancel writes that it no longer waits for.
var sinkWrite = func() vat.Method[schema.Sink_write_Params, vat.Empty] {
	m := schema.Sink_write
	m.Stream = false
	return m
}()

type sentChunk struct {
	answer *vat.Answer[vat.Empty]
	size   int
}

// chunks are buffers for content on its way to a sink.
var chunks = sync.Pool{New: func() any { return new([wire.Chunk]byte) }}

func (p *pump) run(r io.Reader) error {
	chunk := chunks.Get().(*[wire.Chunk]byte)
	defer chunks.Put(chunk)
	b := chunk[:]
	for {
		n, err := io.ReadFull(r, b)
		if n > 0 {
			if err := p.write(b[:n]); err != nil {
				return err
			}
		}
		if err := meter.Yield(p.ctx); err != nil {
			return p.failed(err)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	for len(p.answers) > 0 {
		if err := p.settle(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, stalled)
	defer cancel()
	return p.failed(vat.Do(ctx, p.sink, schema.Sink_done, nil, nil))
}

func (p *pump) write(b []byte) error {
	window := wire.Window
	if p.sink.Pending() { // calls wait here until it is known where the sink is
		window = 2 * wire.Chunk
	}
	for p.inFlight+len(b) > window-wire.Chunk {
		if err := p.settle(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, stalled)
	defer cancel()
	a := vat.Send(ctx, p.sink, sinkWrite, func(_ schema.Sink_write_Params, c *vat.Caps) error {
		return c.SetData(schema.Sink_write_Params_data, b)
	})
	p.answers = append(p.answers, sentChunk{a, len(b)})
	if err := ctx.Err(); err != nil { // there was no room to send it in all that time
		return p.failed(err)
	}
	p.inFlight += len(b)
	p.sent += int64(len(b))
	return nil
}

// settle waits for the oldest write.
func (p *pump) settle() error {
	a := p.answers[0]
	p.answers = p.answers[1:]
	defer a.answer.Release()
	p.inFlight -= a.size
	ctx, cancel := context.WithTimeout(p.ctx, stalled)
	defer cancel()
	_, _, err := a.answer.Await(ctx)
	return p.failed(err)
}

// failed turns an error of the sink into one that says that the sink failed.
func (p *pump) failed(err error) error {
	if full, ok := errors.AsType[*meter.Full](err); ok { // never sent: too many wait
		return full
	}
	switch {
	case err == nil:
		return nil
	case p.ctx.Err() != nil:
		// If ctx has a cause with a code, that is the error. Otherwise it is how the
		// connection ended.
		if cause := context.Cause(p.ctx); vfs.CodeOf(cause) != vfs.Internal {
			return cause
		}
		return p.ctx.Err()
	case context.DeadlineExceeded == err:
		return vfs.Errorf(vfs.Busy, "the sink took nothing for %v", stalled)
	}
	return vfs.Errorf(vfs.Invalid, "the sink failed, and the stream has ended%s", said(err))
}

// maxSaid bounds, in bytes, how much of a sink's own error is repeated.
const maxSaid = 128

// said returns what a sink said, to append to our own words.
func said(err error) string {
	e, ok := errors.AsType[*vat.Exception](err)
	if !ok || e.Reason == "" {
		return ""
	}
	text := vfs.Printable(e.Reason[:min(len(e.Reason), maxSaid)])
	return "; it says: " + text
}

func (p *pump) drop() {
	for _, a := range p.answers {
		a.answer.Release()
	}
}
