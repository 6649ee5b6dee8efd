package file

import (
	"context"
	"fmt"
	"io"
	"sync"

	"capd/cap/scope"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/vat"
	"capd/vfs"
)

// Stage starts a whole-file write and returns its Writer. put is run on a
// goroutine of its own and reads the content to its end; its context ends, and
// its reads fail, when the writer is dropped or n is revoked. Stage takes n over
// and closes it afterwards. path is for errors.
func Stage(s *scope.Scope, n vfs.Node, path string, put func(context.Context, io.Reader) (vfs.Version, error)) (*vat.Cap, error) {
	done, err := s.Writer()
	if err != nil {
		n.Close()
		return nil, err
	}
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(context.Background())
	sw := &writer{path: path, pipe: w, ctx: ctx, cancel: cancel, done: make(chan struct{})}
	stop := vfs.OnRevoke(n, sw.abandon)
	go func() {
		defer cancel(nil) // when the outcome is there: it is no cause
		defer done()
		defer close(sw.done)
		defer n.Close()
		defer stop()
		sw.version, sw.err = guarded(ctx, r, put)
		if sw.err == nil {
			r.Close()
		} else {
			if cause := context.Cause(ctx); cause != nil {
				sw.err = cause
			}
			r.CloseWithError(sw.err)
		}
	}()
	return vat.Serve(writerTable, sw), nil
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
	vat.Handle(schema.Writer_commit, (*writer).commit),
	vat.Handle(schema.Writer_help, (*writer).help),
)

type writer struct {
	path   string
	pipe   *io.PipeWriter
	ctx    context.Context // of put; its cause is why the write was abandoned
	cancel context.CancelCauseFunc
	ended  sync.Once

	done    chan struct{} // closed when these are set
	version vfs.Version
	err     error
}

var errDropped = vfs.Errorf(vfs.Invalid, "the writer has ended; stage another")

// abandon ends the write with err, unless it is committed.
func (w *writer) abandon(err error) {
	w.pipe.CloseWithError(err)
	w.cancel(err)
}

// Release drops what was not committed.
func (w *writer) Release() { w.abandon(errDropped) }

func (w *writer) write(c vat.Call[schema.Writer_write_Params, vat.Empty]) error {
	data, err := wire.Data(c.Params().Data())
	if err == nil {
		err = wire.CheckChunk(len(data))
	}
	if err != nil {
		w.abandon(err)
		return vfs.At(w.path, err)
	}
	stop := context.AfterFunc(c.Context(), func() { w.abandon(errDropped) })
	defer stop()
	if _, err := w.pipe.Write(data); err != nil {
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
		return errDropped
	default:
	}
	if cause := context.Cause(w.ctx); cause != nil { // put has not noticed yet
		return cause
	}
	if err == io.ErrClosedPipe {
		return errDropped
	}
	return err
}

func (w *writer) commit(c vat.Call[schema.Writer_commit_Params, schema.Writer_commit_Results]) error {
	first := false
	w.ended.Do(func() { first = true })
	if !first {
		return vfs.At(w.path, errDropped)
	}
	w.pipe.Close()
	select {
	case <-w.done:
	case <-c.Context().Done():
		w.abandon(errDropped)
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
