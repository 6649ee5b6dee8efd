package materialize

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"capd/vfs"
	"capd/vfs/diff"
)

// Reasons for leaving out an entry.
const (
	whyOutside    = "a link that leads out of the tree"
	whySpecial    = "neither a file, a directory nor a link"
	whyElsewhere  = "another file system begins there"
	whyUnreadable = "it may not be read"
	whyGone       = "it went while it was copied"
	whyName       = "the host's file system does not take its name, or takes it for another's"
)

// copier copies a Dir into a tree. One goroutine walks the directories, several copy
// files.
type copier struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	t      *Tree
	o      Options
	jobs   chan job

	mu   sync.Mutex // also guards the tree's records
	done Progress   // copied
	held Progress   // copied or reserved
}

// dirPair is a directory on both sides. It is open while somebody uses it.
type dirPair struct {
	from vfs.Dir
	to   *os.Root
	path string
	info vfs.Info
	own  bool // both are closed at the end
	refs atomic.Int64
}

// release closes the directory after its last entry was made.
func (l *dirPair) release() {
	if l.refs.Add(-1) == 0 && l.own {
		setModified(l.to, ".", l.info)
		l.from.Close()
		l.to.Close()
	}
}

// job is a file to copy.
type job struct {
	in   *dirPair
	name string
}

func newCopier(ctx context.Context, t *Tree, o Options) *copier {
	c := &copier{t: t, o: o, jobs: make(chan job, 256)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

func (c *copier) run() error {
	defer c.cancel(nil)
	var workers sync.WaitGroup
	for range c.o.workers() {
		workers.Go(func() {
			buf := make([]byte, 128<<10)
			for j := range c.jobs {
				if c.ctx.Err() == nil {
					c.fail(vfs.Join(j.in.path, j.name), c.file(j, buf))
				}
				j.in.release()
			}
		})
	}
	top := &dirPair{from: c.t.from, to: c.t.root}
	top.refs.Add(1)
	c.fail("", c.dir(top, 1))
	top.release()
	close(c.jobs)
	workers.Wait()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

// fail ends the copying with the first error.
func (c *copier) fail(path string, err error) {
	if err != nil {
		c.cancel(located(path, err))
	}
}

// located adds path to err, unless err has one or is the end of a context.
func located(path string, err error) error {
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return vfs.At(path, err)
}

// skippable reports whether an error concerns only one entry, and why that entry is
// left out.
func skippable(err error) (why string, ok bool) {
	switch vfs.CodeOf(err) {
	case vfs.NotFound, vfs.Stale, vfs.NotDir, vfs.IsDir:
		return whyGone, true
	case vfs.NotRegular:
		return whySpecial, true
	case vfs.CrossDevice:
		return whyElsewhere, true
	case vfs.Denied:
		return whyUnreadable, true
	case vfs.Outside: // of a Dir of a remote host
		return whyOutside, true
	}
	return "", false
}

func (c *copier) leaveOut(path, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.leaveOut(path, why)
}

// skip leaves out path if err concerns only that entry. Otherwise it returns err.
func (c *copier) skip(path string, err error) error {
	why, ok := skippable(err)
	if !ok {
		return located(path, err)
	}
	c.leaveOut(path, why)
	return nil
}

// add records an entry that was copied.
func (c *copier) add(path string, r *record, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.records[path] = r
	c.done.Entries++
	c.done.Bytes += size
	if c.o.Progress != nil {
		c.o.Progress(c.done)
	}
}

// dir copies the entries of in. Their paths have depth names.
func (c *copier) dir(in *dirPair, depth int) error {
	entries := 0
	for e, err := range in.from.List(c.ctx) {
		if err != nil {
			return err
		}
		path := vfs.Join(in.path, e.Name)
		if entries++; entries > c.t.bounds.Entries { // those not copied yet count later
			return errEntries(c.t.bounds)
		}
		if depth > c.t.bounds.Depth {
			return vfs.At(path, errDeep(c.t.bounds))
		}
		if vfs.CheckName(e.Name) != nil { // of a Dir that somebody else serves
			c.leaveOut(path, whyName)
			continue
		}
		if c.t.excludes(path) {
			c.mu.Lock()
			c.t.absent = append(c.t.absent, path)
			c.mu.Unlock()
			continue
		}
		switch e.Kind {
		case vfs.FileKind:
			in.refs.Add(1)
			select {
			case c.jobs <- job{in, e.Name}:
			case <-c.ctx.Done():
				in.release()
				return c.ctx.Err()
			}
		case vfs.DirKind, vfs.LinkKind:
			if err := c.entry(in, e.Name, path, depth); err != nil {
				return err
			}
		default:
			c.leaveOut(path, whySpecial)
		}
	}
	return nil
}

// entry copies a directory or a link.
func (c *copier) entry(in *dirPair, name, path string, depth int) error {
	n, err := in.from.Lookup(c.ctx, name)
	if err != nil {
		return c.skip(path, err)
	}
	switch n := n.(type) {
	case vfs.Dir:
		return c.subdir(in, n, name, path, depth)
	case vfs.Link:
		defer n.Close()
		return c.link(in, n, name, path)
	}
	n.Close()
	c.leaveOut(path, whyGone)
	return nil
}

func (c *copier) subdir(in *dirPair, d vfs.Dir, name, path string, depth int) error {
	sub := &dirPair{from: d, path: path, own: true}
	if err := in.to.Mkdir(name, 0o700); err != nil {
		d.Close()
		return c.unmade(path, err)
	}
	var err error
	if sub.to, err = in.to.OpenRoot(name); err != nil {
		d.Close()
		return explain(err)
	}
	sub.refs.Add(1)
	defer sub.release()
	if err := c.room(path, 1, 0); err != nil {
		return err
	}
	c.add(path, &record{state: diff.State{Kind: vfs.DirKind}}, 0)
	if sub.info, err = d.Stat(c.ctx); err != nil {
		return c.skip(path, err)
	}
	if err := c.dir(sub, depth+1); err != nil {
		return c.skip(path, err)
	}
	return nil
}

// unmade handles an error of making an entry. If the host's file system does not accept
// its name, the entry is left out; otherwise it returns err.
func (c *copier) unmade(path string, err error) error {
	err = explain(err)
	switch vfs.CodeOf(err) {
	case vfs.Exists, vfs.Invalid:
		c.leaveOut(path, whyName)
		return nil
	}
	return err
}

func (c *copier) link(in *dirPair, l vfs.Link, name, path string) error {
	target, err := l.Target(c.ctx)
	if err != nil {
		return c.skip(path, err)
	}
	out, err := vfs.LeadsOut(c.ctx, c.t.from, path, target)
	if err != nil {
		return c.skip(path, err)
	}
	if out {
		c.leaveOut(path, whyOutside)
		c.mu.Lock()
		c.t.outLinks[path] = target
		c.mu.Unlock()
		return nil
	}
	if err := in.to.Symlink(target, name); err != nil {
		return c.unmade(path, err)
	}
	if err := c.room(path, 1, 0); err != nil {
		return err
	}
	c.add(path, &record{state: diff.State{Kind: vfs.LinkKind, Target: target}}, 0)
	return nil
}

// room reserves entries and bytes, or answers limit.
func (c *copier) room(path string, entries int, bytes int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case bytes > c.t.bounds.Bytes-c.held.Bytes:
		return vfs.At(path, errBytes(c.t.bounds))
	case entries > c.t.bounds.Entries-c.held.Entries:
		return errEntries(c.t.bounds)
	}
	c.held.Bytes += bytes
	c.held.Entries += entries
	return nil
}
