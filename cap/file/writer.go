package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"capd/cap/scope"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
)

// Stage starts a whole-file write and returns its Writer. put is run on a
// goroutine of its own and reads the content to its end; its context ends, and
// its reads fail, when the writer is dropped or n is revoked. Stage waits, until
// ctx ends, for put to ask for the content: what put answers before that, such as
// readOnly, is Stage's own error. It takes n over and closes it afterwards. path
// is for errors.
func Stage(ctx context.Context, s *scope.Scope, n vfs.Node, path string, put func(context.Context, io.Reader) (vfs.Version, error)) (*vat.Cap, error) {
	done, err := s.Writer()
	if err != nil {
		n.Close()
		return nil, err
	}
	r, w := io.Pipe()
	asked := make(chan struct{})
	sw := &writer{path: path, pipe: w, done: make(chan struct{})}
	sw.ctx, sw.cancel = context.WithCancelCause(context.Background())
	stop := vfs.OnRevoke(n, sw.abandon)
	go func() {
		defer sw.cancel(nil) // when the outcome is there: it is no cause
		defer done()
		defer close(sw.done)
		defer n.Close()
		defer stop()
		sw.run(r, &telling{Reader: r, asked: sync.OnceFunc(func() { close(asked) })}, put)
	}()
	select {
	case <-asked:
		return vat.Serve(writerTable, sw), nil
	case <-sw.done:
		if sw.err == nil { // put needs no content
			return vat.Serve(writerTable, sw), nil
		}
		return nil, sw.err
	case <-ctx.Done():
		sw.abandon(ctx.Err())
		return nil, ctx.Err()
	}
}

// telling is a reader that tells when it is asked for the first time.
type telling struct {
	io.Reader
	asked func()
}

func (t *telling) Read(p []byte) (int, error) {
	t.asked()
	return t.Reader.Read(p)
}

// run runs put on content, which comes from the pipe r, and keeps the outcome.
func (w *writer) run(r *io.PipeReader, content io.Reader, put func(context.Context, io.Reader) (vfs.Version, error)) {
	w.version, w.err = guarded(w.ctx, content, put)
	if w.err == nil {
		r.Close()
		return
	}
	if cause := context.Cause(w.ctx); cause != nil {
		w.err = cause
	}
	r.CloseWithError(w.err)
}

// guarded is put; a panic is one write's failure.
func guarded(ctx context.Context, r io.Reader, put func(context.Context, io.Reader) (vfs.Version, error)) (v vfs.Version, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = vfs.Hide(fmt.Errorf("panic in a whole-file write: %v", p))
		}
	}()
	return put(ctx, r)
}

var writerTable = vat.NewTable(
	vat.Handle(schema.Writer_write, (*writer).write),
	vat.Handle(schema.Writer_commit, (*writer).commit, vat.Serial()),
	vat.Handle(schema.Writer_help, (*writer).help),
)

type writer struct {
	path   string
	pipe   *io.PipeWriter
	ctx    context.Context // of put; its cause is why the write was abandoned
	cancel context.CancelCauseFunc
	ended  atomic.Bool // commit was called

	done    chan struct{} // closed when these are set
	version vfs.Version
	err     error
}

var (
	errEnded     = vfs.Errorf(vfs.Invalid, "the writer has ended; stage another")
	errCancelled = vfs.Errorf(vfs.Invalid, "a write was cancelled, so the content is not whole; stage again, send all of it, and wait for the answer of each write, or keep its promise until commit has answered")
)

// abandon ends the write with err, unless it is committed.
func (w *writer) abandon(err error) {
	w.pipe.CloseWithError(err)
	w.cancel(err)
}

// Release drops what was not committed.
func (w *writer) Release() { w.abandon(errEnded) }

// StreamBroken ends the write: a part of the content is missing. It is called for
// every write that fails, and for those that were cancelled or refused and never
// ran. Those that came after commit are no part of the content.
func (w *writer) StreamBroken(why *vat.Exception) {
	if w.ended.Load() {
		return
	}
	if why == vat.ErrCanceled {
		w.abandon(errCancelled)
		return
	}
	e, _ := errors.AsType[*vfs.Error](wire.Decode(why))
	w.abandon(vfs.Errorf(e.Code, "a write failed (%s), so the content is not whole; stage again, and send all of it", e.Msg))
}

func (w *writer) write(c vat.Call[schema.Writer_write_Params, vat.Empty]) error {
	if w.ended.Load() {
		return vfs.At(w.path, errEnded)
	}
	data, err := wire.Data(c.Params().Data())
	if err == nil {
		err = wire.CheckChunk(len(data))
	}
	if err != nil {
		w.abandon(err)
		return vfs.At(w.path, err)
	}
	stop := context.AfterFunc(c.Context(), func() { w.abandon(errCancelled) })
	_, err = w.pipe.Write(data)
	if !stop() && err == nil { // so that what the caller is told is what commit will say
		err = errCancelled
	}
	if err != nil {
		return vfs.At(w.path, w.failure(err))
	}
	return nil
}

// failure is the error of the write as a whole, where there is one.
func (w *writer) failure(err error) error {
	select {
	case <-w.done:
		if w.err != nil {
			return w.err
		}
		return errEnded
	default:
	}
	if cause := context.Cause(w.ctx); cause != nil { // put has not noticed yet
		return cause
	}
	if err == io.ErrClosedPipe {
		return errEnded
	}
	return err
}

func (w *writer) commit(c vat.Call[schema.Writer_commit_Params, schema.Writer_commit_Results]) error {
	if w.ended.Swap(true) {
		return vfs.At(w.path, errEnded)
	}
	w.pipe.Close()
	c.Go() // and what is written from now on is refused
	select {
	case <-w.done:
	case <-c.Context().Done():
		w.abandon(errEnded)
		<-w.done
	}
	if w.err != nil {
		return vfs.At(w.path, w.err)
	}
	r, err := c.Results()
	if err != nil {
		return err
	}
	return r.SetVersion(w.version[:])
}

func (w *writer) help(c vat.Call[schema.Writer_help_Params, schema.Writer_help_Results]) error {
	return wire.Help(help.Text, "Writer", c.Params().Method, c.Results)
}
