package physical

import (
	"context"
	"io"
	"math"
	"os"
	"sync/atomic"

	"capd/meter"
	"capd/vfs"
)

// File is a name in a directory, whatever regular file has it. While a node of another
// kind has the name, every method answers stale.
//
// From the second read on, File leaves the file open for later reads, until the name is
// changed again, five seconds pass without a read, or Close. Each read checks that the
// open file still has the name; docs/decisions/0008 says how.
type File struct {
	spot
	again atomic.Bool // it was read before
}

var (
	_ vfs.File      = (*File)(nil)
	_ vfs.Trier     = (*File)(nil)
	_ vfs.Versioner = (*File)(nil)
	_ vfs.Appender  = (*File)(nil)

	_ vfs.Attributer = (*File)(nil)
)

// Stat answers notFound when nothing has the name.
func (f *File) Stat(ctx context.Context) (vfs.Info, error) {
	if info, ok := vfs.Recall(ctx, f); ok {
		return info, f.usable(ctx)
	}
	a, err := f.look(ctx)
	if err == nil {
		err = held(a.regular())
	}
	if err != nil {
		return vfs.Info{}, err
	}
	return a.info(), nil
}

// held returns stale for an error that says that another kind of node is at a File's
// place now.
func held(err error) error {
	switch vfs.CodeOf(err) {
	case vfs.IsDir, vfs.NotRegular, vfs.NotDir:
		return vfs.At("", vfs.Stale)
	}
	return err
}

// open opens the file for contents and for Sync.
func (f *File) open(ctx context.Context, flag int) (*os.File, attr, error) {
	return f.openBy(ctx, flag, directory.open)
}

// openBy opens every descriptor of a file that is not for one read alone.
func (f *File) openBy(ctx context.Context, flag int, open func(directory, string, int) (*os.File, attr, error)) (*os.File, attr, error) {
	d, err := f.enter(ctx, f.in)
	if err != nil {
		return nil, attr{}, err
	}
	defer f.s.leave(d)
	file, a, err := open(d, f.name, flag)
	return file, a, held(absent(d, f.in, err))
}

// reader opens the file that has the name for one read.
func (f *File) reader(ctx context.Context) (reader, error) {
	if err := f.usable(ctx); err != nil {
		return nil, err
	}
	if r, err := f.s.kept(f.in, f.path, false); r != nil || err != nil {
		return r, err
	}
	mark := f.s.host.mark()
	d, err := f.s.enter(f.in)
	if err != nil {
		return nil, err
	}
	defer f.s.leave(d)
	r, a, err := d.read(f.name)
	if err != nil {
		return nil, held(absent(d, f.in, err))
	}
	if f.again.Swap(true) {
		f.s.host.keep(f.path, r, a, mark)
	}
	return r, nil
}

// ReadAt reads the content that is in place at the time of the call. With vfs.Trying it
// reads only what is in memory of a file left open.
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if vfs.IsTrying(ctx) {
		return f.tryReadAt(p, off)
	}
	r, err := f.reader(ctx)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	n := 0
	late := meter.Rest(ctx, func() { n, err = readAt(r, p, off) })
	if err == nil {
		err = late
	}
	return n, err
}

func (f *File) tryReadAt(p []byte, off int64) (int, error) {
	if f.closed.Load() {
		return 0, vfs.At("", vfs.Stale)
	}
	if off < 0 {
		return 0, vfs.ErrOffset
	}
	if len(p) == 0 || off > math.MaxInt64-int64(len(p)) { // see vfs.ReadAt
		return 0, vfs.ErrWouldBlock
	}
	r, err := f.s.kept(f.in, f.path, true)
	switch {
	case err != nil:
		return 0, err
	case r == nil:
		return 0, vfs.ErrWouldBlock
	}
	defer r.closeSoon()
	n, err := r.tryReadAt(p, off)
	if err == io.EOF {
		return n, err
	}
	return n, explain(err)
}

// Close also closes a file left open. Other nodes that read it open it again.
func (f *File) Close() error {
	if f.again.Load() {
		f.s.host.forget(f.path)
	}
	return f.spot.Close()
}

// Version reads the file only if it changed since the last time. It answers busy for a
// file that is being written all the time.
func (f *File) Version(ctx context.Context) (vfs.Version, error) {
	if err := f.usable(ctx); err != nil {
		return vfs.Version{}, err
	}
	v, err := f.s.versionAt(ctx, f.in, f.name)
	return v.version, held(err)
}

// Replace implements vfs.File.
func (f *File) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	if err := f.changeable(ctx); err != nil {
		return vfs.Version{}, err
	}
	return f.dir().replace(ctx, f.name, r, c, replacing{file: true})
}

// dir returns the directory that f is in.
func (f *File) dir() *Dir { return &Dir{node: f.like(), at: f.in} }

// Sync writes the content and the name to disk.
func (f *File) Sync(ctx context.Context) error {
	file, _, err := f.open(ctx, openToSync)
	if err != nil {
		return err
	}
	defer file.Close()
	if f.s.noSync {
		return nil
	}
	if err := file.Sync(); err != nil {
		return explain(err)
	}
	d, err := f.s.enter(f.in)
	if err != nil {
		return err
	}
	changing := changing{s: f.s}
	err = changing.of(d, f.in)
	f.s.leave(d)
	if err != nil {
		return err
	}
	return changing.sync(context.Background()) // at once, whatever ctx says
}
