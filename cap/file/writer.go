package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/help"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/membrane"
)

// Stage starts a whole-file write and returns its Writer. It runs put, which reads the
// content to its end, on a goroutine of its own, in the lane of ctx's turn. If the
// Writer is released or n is revoked, put's context ends and its reads fail. Stage
// takes n over and closes it when put has ended. path is for errors.
//
// Stage waits until put asks for content. If put fails before that, for example with
// readOnly, Stage returns that error. It also returns when ctx ends.
//
// The Writer counts in n's meter until put has ended and the Writer is released, so
// that ended Writers cannot pile up.
func Stage(ctx context.Context, n vfs.Node, path string, put func(context.Context, io.Reader) (vfs.Version, error)) (*vat.Cap, error) {
	m := membrane.MeterOf(n)
	err := membrane.Take(m, meter.Writers, 1)
	if err != nil {
		n.Close()
		return nil, err
	}
	r, w := io.Pipe()
	asked := make(chan struct{})
	st := &staging{path: path, pipe: w, done: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancelCause(context.Background())
	if t := meter.TurnOf(ctx); t != nil {
		st.meter, st.lane = meter.Of(ctx), t.Lane()
	}
	sw := &writer{place: &place{done: func() { membrane.Give(m, meter.Writers, 1) }}}
	sw.staging.Store(st)
	stop := membrane.OnRevoke(n, st.abandon)
	go func() {
		defer st.cancel(nil) // runs last, so that it is not taken for the cause of the outcome
		defer sw.place.part()
		defer close(st.done)
		defer n.Close()
		defer stop()
		st.run(r, &telling{Reader: r, asked: sync.OnceFunc(func() { close(asked) })}, put)
		select {
		case <-asked: // otherwise Stage returns the error
			membrane.Denied(n, membrane.OpReplace, path, "", st.err)
		default:
		}
	}()
	if err = st.begun(ctx, asked); err == nil {
		return vat.Serve(writerTable, sw), nil
	}
	st.abandon(err)
	sw.place.part()
	return nil, err
}

// begun waits until put asks for content, or has ended. Meanwhile others can use ctx's
// turn, put among them. Otherwise stages that occupy every turn would wait for each
// other.
func (s *staging) begun(ctx context.Context, asked <-chan struct{}) (err error) {
	late := meter.Wait(ctx, func() {
		select {
		case <-asked:
		case <-s.done:
			err = s.err
		case <-ctx.Done():
			err = ctx.Err()
		}
	})
	if err == nil {
		err = late
	}
	return err
}

// place is a Writer's place in its meter. The write and the capability share it.
type place struct {
	parted atomic.Bool
	done   func()
}

// part is called by each of the two at its end. The second call gives the place back.
func (p *place) part() {
	if p.parted.Swap(true) {
		p.done()
	}
}

// telling is a reader that calls asked before each read.
type telling struct {
	io.Reader
	asked func()
}

func (t *telling) Read(p []byte) (int, error) {
	t.asked()
	return t.Reader.Read(p)
}

// run runs put on content, which comes from the pipe r, and keeps the outcome.
func (s *staging) run(r *io.PipeReader, content io.Reader, put func(context.Context, io.Reader) (vfs.Version, error)) {
	s.version, s.err = s.inTurn(content, put)
	if s.err == nil {
		r.Close()
		return
	}
	if cause := context.Cause(s.ctx); cause != nil {
		s.err = cause
	}
	r.CloseWithError(s.err)
}

// inTurn runs put in a turn of its own, and gives the turn away while put waits for
// content.
func (s *staging) inTurn(content io.Reader, put func(context.Context, io.Reader) (vfs.Version, error)) (vfs.Version, error) {
	if s.meter == nil {
		return guarded(s.ctx, content, put)
	}
	ctx, turn, err := s.meter.Begin(s.ctx, s.lane)
	if err != nil {
		return vfs.Version{}, err
	}
	defer turn.End()
	return guarded(ctx, &awaited{ctx, content}, put)
}

// awaited is a reader that gives ctx's turn away during each read.
type awaited struct {
	ctx context.Context
	r   io.Reader
}

func (a *awaited) Read(p []byte) (n int, err error) {
	if late := meter.Wait(a.ctx, func() { n, err = a.r.Read(p) }); late != nil && err == nil {
		err = late
	}
	return n, err
}

// guarded runs put and returns a panic of it as an error.
func guarded(ctx context.Context, r io.Reader, put func(context.Context, io.Reader) (vfs.Version, error)) (v vfs.Version, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = vfs.Hide(fmt.Errorf("panic in a whole-file write: %v", p))
		}
	}()
	return put(ctx, r)
}

var writerTable = vat.NewTable(
	// passes on what was sent, and waits until the store has taken it
	vat.Handle(schema.Writer_write, (*writer).write),
	// waits for the store, which has a turn of its own
	vat.Handle(schema.Writer_commit, (*writer).commit, vat.Serial()),
	// asks neither a store nor a guard
	wire.Help(schema.Writer_help, help.Text),
)

// writer serves a Writer. Once it has ended it keeps only its place.
type writer struct {
	place   *place
	staging atomic.Pointer[staging] // nil once committed or released
}

// staging is a whole-file write under way.
type staging struct {
	path   string
	pipe   *io.PipeWriter
	ctx    context.Context // for put; its cause is why the write was abandoned
	cancel context.CancelCauseFunc

	meter *meter.Meter // gives put its turn; nil for a call made in this process
	lane  meter.Lane

	done    chan struct{} // closed when version and err are set
	version vfs.Version
	err     error
}

var (
	errEnded     = vfs.Errorf(vfs.Invalid, "the writer has ended; stage another")
	errCancelled = vfs.Errorf(vfs.Invalid, "a write was cancelled, so the content is not whole; stage again, send all of it, and wait for the answer of each write, or keep its promise until commit has answered")
)

// abandon ends the write with err, unless it is committed.
func (s *staging) abandon(err error) {
	s.pipe.CloseWithError(err)
	s.cancel(err)
}

// at returns err with the path of the file.
func (s *staging) at(err error) error { return vfs.At(s.path, err) }

// Release drops what was not committed.
func (w *writer) Release() {
	if s := w.staging.Swap(nil); s != nil {
		s.abandon(errEnded)
	}
	w.place.part()
}

// StreamBroken ends the write, because a part of the content is missing. It is called
// for every write that failed, also for one that was cancelled or refused and never
// ran. After commit it has no effect.
func (w *writer) StreamBroken(why *vat.Exception) {
	s := w.staging.Load()
	if s == nil {
		return
	}
	if why == vat.ErrCanceled {
		s.abandon(errCancelled)
		return
	}
	e, _ := errors.AsType[*vfs.Error](wire.Decode(why))
	s.abandon(vfs.Errorf(e.Code, "a write failed (%s), so the content is not whole; stage again, and send all of it", e.Msg))
}

func (w *writer) write(c vat.Call[schema.Writer_write_Params, vat.Empty]) error {
	s := w.staging.Load()
	if s == nil {
		return vfs.At("", errEnded)
	}
	data, err := wire.Param(c.Params().Data())
	if err == nil {
		err = wire.CheckChunk(len(data))
	}
	if err != nil {
		s.abandon(err)
		return s.at(err)
	}
	stop := context.AfterFunc(c.Context(), func() { s.abandon(errCancelled) })
	waited := false
	late := meter.Wait(c.Context(), func() {
		waited = true
		_, err = s.pipe.Write(data)
	})
	if !waited { // a part that is not written is missing
		err = late
		s.abandon(late)
	}
	if !stop() && err == nil { // commit fails with the same error
		err = errCancelled
	}
	if err != nil {
		return s.at(s.failure(err))
	}
	return nil
}

// failure returns why the write as a whole has failed, or err if it has not.
func (s *staging) failure(err error) error {
	select {
	case <-s.done:
		if s.err != nil {
			return s.err
		}
		return errEnded
	default:
	}
	if cause := context.Cause(s.ctx); cause != nil { // put has not noticed yet
		return cause
	}
	if err == io.ErrClosedPipe {
		return errEnded
	}
	return err
}

func (w *writer) commit(c vat.Call[schema.Writer_commit_Params, schema.Writer_commit_Results]) error {
	s := w.staging.Swap(nil)
	if s == nil {
		return vfs.At("", errEnded)
	}
	s.pipe.Close()
	c.Go() // later writes are refused
	if err := s.await(c.Context()); err != nil {
		s.abandon(err)
		<-s.done
	}
	if s.err != nil {
		return s.at(s.err)
	}
	return c.Results().SetVersion(s.version[:])
}

// await waits for the outcome while others can use ctx's turn. It returns an error if
// it cannot wait, or if ctx ends first.
func (s *staging) await(ctx context.Context) error {
	err := errEnded
	late := meter.Wait(ctx, func() {
		select {
		case <-s.done:
			err = nil
		case <-ctx.Done():
		}
	})
	if _, full := errors.AsType[*meter.Full](late); full {
		return late
	}
	return err
}
