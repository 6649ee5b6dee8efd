// Package copier copies trees. It reads a tree through a [vfs.Dir], so every guard of
// that Dir decides about every path.
//
// [Copy] hands what it reads to a [Sink], which stores it, for instance in a directory
// of the host or in a content-addressed store. [Duplicate] and [Move] copy a node from
// one Dir to another, all or nothing.
package copier

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"capd/vfs"
)

// Options say what is copied, and how. With the zero value everything is copied, and
// whatever cannot be copied ends the copy. Functions other than Progress may be called
// from several goroutines at once.
type Options struct {
	Limits

	// Workers is how many files are copied at once. The default is one for each
	// processor, at least 2 and at most 8. With 1 everything is copied in the order of
	// the source's lists, in the goroutine that called [Copy]. A guest's call has one
	// turn, so it copies with 1; see package meter.
	Workers int

	// Times says that the sink wants the modification times of directories. Reading
	// them is one more call for each.
	Times bool

	// Progress is called after each node, one call at a time. It must not block.
	Progress func(Progress)

	// Exclude reports whether the entry at path is left out, with everything below it.
	Exclude func(path string) bool

	// Link decides about a link before it is copied. Its error is one of [Unread].
	Link func(ctx context.Context, path, target string) error

	// Listed is called with each directory of the source, and its path, after all of it
	// was listed. Its error ends the copy.
	Listed func(ctx context.Context, d vfs.Dir, path string) error

	// Planned is called when all of the source was listed and the conditions hold, and nothing was made. It calls make, once and
	// with a context that descends from ctx, which makes the copy, or returns an error. Only [Duplicate] and [Move] call it.
	Planned func(ctx context.Context, p *Plan, make func(context.Context) error) error

	// Hold is called before what is to be copied is noted: that takes about n bytes of memory, until the copy ends. Its error
	// ends the copy. Only [Duplicate] and [Move] call it.
	Hold func(n int64) error

	// Skip decides about an entry that cannot be copied. If it returns nil, the entry
	// is left out. Otherwise the copy ends with the error that it returns.
	Skip func(Unread) error

	verify   bool // set File.Version
	onlyLook bool // open no file; the sink's File gets nil
}

// Unread is an entry that cannot be copied, because of its source.
type Unread struct {
	Path   string
	Err    error
	Partly bool // a directory that is copied already, but could not be listed to its end
}

// Progress is how much has been copied.
type Progress struct {
	Files       int64
	Directories int64 // complete ones, without the root
	Links       int64
	Bytes       int64 // of the files
}

// Entries returns the number of files, directories and links.
func (p Progress) Entries() int64 { return p.Files + p.Directories + p.Links }

// Sink is a directory that a copy is made in. Its methods may be called from several
// goroutines at once. If one of them returns [ErrLeftOut], that entry is left out; any
// other error ends the copy.
type Sink interface {
	// Mkdir makes a directory. The modification time of info is set only if
	// Options.Times is, and may be 0, which means unknown.
	Mkdir(ctx context.Context, name string, info vfs.Info) (Sink, error)
	// File makes a file.
	File(ctx context.Context, name string, f *File) error
	// Link makes a link.
	Link(ctx context.Context, name, target string) error
	// End is called once, after all calls of the other methods have returned, and End
	// of the directories in it. whole says that nothing has failed so far.
	End(ctx context.Context, whole bool) error
}

// ErrLeftOut is what a method of a [Sink] returns for an entry that it leaves out.
var ErrLeftOut = errors.New("copier: left out")

// Copy copies everything in from to the sink to, and ends to. It does not close from.
//
// It answers limit beyond the limits, and any error of from and to, with a path
// relative to from. What was copied until then is the sink's to remove. A file that is
// replaced meanwhile is copied as it was before or after.
func Copy(ctx context.Context, from vfs.Dir, to Sink, o Options) error {
	return run(ctx, from, to, o, func(c *copying, top *dir) { c.list(top) })
}

// copyOne copies what is at from, under the same name, to the sink to.
func copyOne(ctx context.Context, from Spot, to Sink, o Options) error {
	return run(ctx, from.Dir, to, o, func(c *copying, top *dir) {
		c.fail("", c.node(top, from.Name, "", top.inline))
		c.release(top)
	})
}

// run copies what walk visits.
func run(ctx context.Context, from vfs.Dir, to Sink, o Options, walk func(*copying, *dir)) error {
	o.Limits = o.orNone()
	c := &copying{o: o}
	c.ctx, c.end = context.WithCancelCause(ctx)
	defer c.end(nil)
	top := &dir{from: from, to: to, depth: 1}
	top.refs.Store(1)
	c.work(top, walk)
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

func (o Options) workers() int {
	if o.Workers > 0 {
		return o.Workers
	}
	return min(max(runtime.GOMAXPROCS(0), 2), 8)
}

// copying is one copy. One goroutine walks the directories, the workers copy files.
type copying struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	o    Options
	jobs chan job // nil for one worker

	mu   sync.Mutex
	done Progress
	held struct { // what counts towards the limits
		entries int
		bytes   int64
	}
}

// job is a file to be copied.
type job struct {
	in   *dir
	name string
}

// dir is a directory on both sides.
type dir struct {
	in     *dir // nil for the root
	from   vfs.Dir
	to     Sink
	name   string
	path   string
	depth  int  // names in the paths of its entries
	inline bool // its files are copied by the goroutine that walks it
	refs   atomic.Int64
}

// work runs walk beside the workers.
func (c *copying) work(top *dir, walk func(*copying, *dir)) {
	workers := c.o.workers()
	if workers == 1 {
		top.inline = true
		walk(c, top)
		return
	}
	c.jobs = make(chan job, 256)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for j := range c.jobs {
				if c.ctx.Err() == nil {
					path := vfs.Join(j.in.path, j.name)
					c.fail(path, c.node(j.in, j.name, path, true))
				}
				c.release(j.in)
			}
		})
	}
	walk(c, top)
	close(c.jobs)
	running.Wait()
}

// fail ends the copy with the first error.
func (c *copying) fail(path string, err error) {
	if err != nil && err != ErrLeftOut {
		c.end(at(path, err))
	}
}

// at adds path to err, unless err has one or is the end of a context.
func at(path string, err error) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return vfs.At(path, err)
}

// release ends d after its last entry was copied.
func (c *copying) release(d *dir) {
	for ; d != nil && d.refs.Add(-1) == 0; d = d.in {
		c.fail(d.path, d.to.End(c.ctx, c.ctx.Err() == nil))
		if d.in == nil {
			return
		}
		d.from.Close()
		c.copied(Progress{Directories: 1})
	}
}

// copied adds what was copied.
func (c *copying) copied(p Progress) {
	if c.ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done.Files += p.Files
	c.done.Directories += p.Directories
	c.done.Links += p.Links
	c.done.Bytes += p.Bytes
	if c.o.Progress != nil {
		c.o.Progress(c.done)
	}
}
