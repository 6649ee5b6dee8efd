package file

import (
	"bytes"
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

// Send writes what from gives to a caller's sink, and returns how many bytes the sink has taken. n is the node that it comes from:
// when that is revoked, Send ends. The sink may be hostile: it has a window and a deadline, and its errors are not passed on as errors
// of the node.
func Send(ctx context.Context, n vfs.Node, sink *vat.Cap, from func(ctx context.Context, to *Pump) error) (sent int64, err error) {
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer membrane.OnRevoke(n, func(err error) { cancel(err) })()
	p := &Pump{ctx: within, sink: sink, chunk: chunks.Get().(*[wire.Chunk]byte)}
	defer chunks.Put(p.chunk)
	if err = from(within, p); err == nil {
		err = p.finish()
	}
	p.drop()
	if cause := context.Cause(within); cause != nil && ctx.Err() == nil {
		err = cause // revoked: that ended the wait
	}
	return p.sent, err
}

// Pump writes to a sink. It keeps the unanswered bytes below wire.Window by some
// margin, so that the connection's own window, which counts whole messages, never
// fills.
type Pump struct {
	ctx      context.Context
	sink     *vat.Cap
	chunk    *[wire.Chunk]byte
	held     int // bytes of chunk that are not sent yet
	sent     int64
	inFlight int
	answers  []sentChunk
}

// sinkWrite is Sink.write as an ordinary call: Pump has a window of its own, and needs
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

// Write implements io.Writer.
func (p *Pump) Write(b []byte) (int, error) {
	r := bytes.NewReader(b)
	_, err := p.ReadFrom(r)
	return len(b) - r.Len(), err
}

// ReadFrom implements io.ReaderFrom. It sends whole chunks, and keeps the rest.
func (p *Pump) ReadFrom(r io.Reader) (all int64, err error) {
	for {
		n, err := io.ReadFull(r, p.chunk[p.held:])
		all += int64(n)
		if p.held += n; err == nil {
			err = p.flush()
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

// flush sends what is held.
func (p *Pump) flush() error {
	if p.held > 0 {
		if err := p.write(p.chunk[:p.held]); err != nil {
			return err
		}
		p.held = 0
	}
	return p.failed(meter.Yield(p.ctx))
}

// finish sends the rest, and returns when the sink has taken everything.
func (p *Pump) finish() error {
	if err := p.flush(); err != nil {
		return err
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

func (p *Pump) write(b []byte) error {
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
func (p *Pump) settle() error {
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
func (p *Pump) failed(err error) error {
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

func (p *Pump) drop() {
	for _, a := range p.answers {
		a.answer.Release()
	}
}
