package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"capd/vfs"
)

// PutOptions configure a Put. The zero value puts the whole tree.
type PutOptions struct {
	// Pin is the name under which to pin the root once it is stored; "" for none. If
	// the store is not a [Pinner] the answer is unsupported.
	Pin string
	// Bounds limit the Put. Beyond them it answers limit.
	Bounds Bounds
	// Special is called with the path of each entry that is neither file, directory nor
	// link. If it returns nil the entry is left out; an error ends the Put. If Special
	// is nil, such an entry is notRegular.
	Special func(path string) error
	// Progress is called after each node, never by two goroutines at once. It should
	// return soon.
	Progress func(Progress)
}

// Bounds limit the size of a Put. A field that is 0 or less means no bound.
type Bounds struct {
	Nodes int64 // files, directories and links below the root
	Bytes int64 // of file content
}

// Progress is how far a Put has come.
type Progress struct {
	Files       int64 // stored, or found to be stored
	Directories int64
	Links       int64
	Bytes       int64 // in the files
	NewBytes    int64 // new to the store, in files and directories
}

// Put stores the tree below d and returns the digest of its root. It reads, hashes and
// stores in one pass, with bounded memory for each directory on the way, and sends the
// store only what it lacks. When Put returns, everything would survive a power cut. If
// Put fails, nothing was pinned. A file that is replaced meanwhile is stored as it was
// before or after; a file that is written in place, as it was read.
//
// Put answers invalid for a name or a link's target that is not valid UTF-8, which a
// Directory message cannot hold; limit for a tree deeper than vfs.MaxDepth or beyond
// the bounds; tooLarge for a directory of more than [MaxNodes] or whose message is
// longer than [MaxDirectory]; conflict for a file that becomes shorter meanwhile; and
// errors of d and b. The error's path is relative to d.
func Put(ctx context.Context, b Blobs, d vfs.Dir, o PutOptions) (Digest, error) {
	pinner, ok := b.(Pinner)
	if o.Pin != "" && !ok {
		return Digest{}, vfs.Errorf(vfs.Unsupported, "this store keeps no pins")
	}
	u, err := b.Begin(ctx)
	if err != nil {
		return Digest{}, err
	}
	defer u.Close() // after the pin: until then it keeps what it stored
	root, err := putTree(ctx, u, d, o)
	if err != nil {
		return Digest{}, err
	}
	if err := u.Commit(ctx); err != nil {
		return Digest{}, err
	}
	if o.Pin != "" {
		if err := pinner.Pin(ctx, o.Pin, root); err != nil {
			return Digest{}, err
		}
	}
	return root, nil
}

func putTree(ctx context.Context, u Upload, d vfs.Dir, o PutOptions) (Digest, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2 * runtime.GOMAXPROCS(0)) // half of them read or write
	p := &putter{ctx: ctx, u: u, o: o, group: group}
	root := &pendingDir{p: p}
	root.children.Store(1)
	err := p.walk(d, root, 0)
	if err != nil {
		cancel()
	}
	if other := group.Wait(); err == nil || errors.Is(err, context.Canceled) && other != nil {
		err = other // the reason why the walk ended, if it did
	}
	return root.digest, err
}

// putter puts one tree. One goroutine walks it, others read files. A directory is
// stored by the goroutine that stores its last child.
type putter struct {
	ctx   context.Context
	u     Upload
	o     PutOptions
	group *errgroup.Group
	nodes int64        // seen by the walk
	bytes atomic.Int64 // of files begun so far

	mu       sync.Mutex
	progress Progress
}

// pendingDir is a directory that is not completely stored.
type pendingDir struct {
	p      *putter
	parent *pendingDir // nil for the root
	name   string
	path   string
	digest Digest // set at the end

	children atomic.Int64 // children not stored yet, plus 1 while it is listed
	mu       sync.Mutex
	nodes    []node
}

func (d *pendingDir) add(n node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nodes = append(d.nodes, n)
}

// done says that one of d's children is stored. The last child stores d.
func (d *pendingDir) done() error {
	for ; d != nil && d.children.Add(-1) == 0; d = d.parent {
		if err := d.store(); err != nil {
			return at(d.path, err)
		}
	}
	return nil
}

func (d *pendingDir) store() error {
	here := directory{nodes: d.nodes}
	if _, ok := here.sort(); !ok {
		return vfs.Errorf(vfs.Invalid, "the directory lists a name twice")
	}
	if len(here.nodes) > MaxNodes {
		return errDirectoryNodes
	}
	message := here.encode(nil)
	if len(message) > MaxDirectory {
		return errDirectorySize
	}
	digest, err := d.p.u.Add(d.p.ctx, io.NewSectionReader(bytes.NewReader(message), 0, int64(len(message))))
	if err != nil {
		return err
	}
	d.digest, d.nodes = digest, nil
	if d.parent != nil {
		d.parent.add(node{kind: vfs.DirKind, name: d.name, digest: digest})
		d.p.report(func(p *Progress) { p.Directories++ })
	}
	return nil
}

func (p *putter) report(change func(*Progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.progress)
	if p.o.Progress != nil {
		p.progress.NewBytes = p.u.Stored()
		p.o.Progress(p.progress)
	}
}

// at adds path to err, unless err has one or is the end of a context.
func at(path string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" {
		return err
	}
	return vfs.At(path, err)
}

// walk visits everything in d.
func (p *putter) walk(d vfs.Dir, to *pendingDir, depth int) error {
	for e, err := range d.List(p.ctx) {
		if err != nil {
			return at(to.path, err)
		}
		path := vfs.Join(to.path, e.Name)
		if err := p.entry(d, e, to, path, depth); err != nil {
			return at(path, err)
		}
	}
	return to.done()
}

func (p *putter) entry(d vfs.Dir, e vfs.Entry, to *pendingDir, path string, depth int) error {
	p.nodes++
	switch {
	case p.ctx.Err() != nil:
		return p.ctx.Err()
	case vfs.CheckName(e.Name) != nil:
		return vfs.CheckName(e.Name)
	case !utf8.ValidString(e.Name):
		return vfs.Errorf(vfs.Invalid, "its name is not valid UTF-8, and a stored tree holds no other; rename it")
	case depth >= vfs.MaxDepth:
		return vfs.Errorf(vfs.Limit, "the tree is deeper than %d names", vfs.MaxDepth)
	case p.o.Bounds.Nodes > 0 && p.nodes > p.o.Bounds.Nodes:
		return vfs.Errorf(vfs.Limit, "the tree has more than %d files, directories and links", p.o.Bounds.Nodes)
	case e.Kind == vfs.Other:
		return p.special(path)
	}
	n, err := d.Lookup(p.ctx, e.Name)
	switch vfs.CodeOf(err) {
	case "":
	case vfs.NotFound:
		return nil // removed during the listing
	case vfs.NotRegular:
		return p.special(path)
	default:
		return err
	}
	switch n := n.(type) {
	case vfs.Dir:
		defer n.Close()
		sub := &pendingDir{p: p, parent: to, name: e.Name, path: path}
		sub.children.Store(1)
		to.children.Add(1)
		return p.walk(n, sub, depth+1)
	case vfs.Link:
		defer n.Close()
		return p.link(n, to, e.Name)
	case vfs.File:
		to.children.Add(1)
		p.group.Go(func() error {
			defer n.Close()
			if err := p.file(n, to, e.Name); err != nil {
				return at(path, err)
			}
			return to.done()
		})
		return nil
	}
	return p.special(path)
}

func (p *putter) special(path string) error {
	if p.o.Special == nil {
		return vfs.Errorf(vfs.NotRegular, "it is neither file, directory nor link; leave it out")
	}
	return p.o.Special(path)
}

func (p *putter) link(l vfs.Link, to *pendingDir, name string) error {
	target, err := l.Target(p.ctx)
	if vfs.CodeOf(err) == vfs.NotFound {
		return nil
	}
	if err == nil {
		err = vfs.CheckTarget(target)
	}
	if err == nil && !utf8.ValidString(target) {
		err = vfs.Errorf(vfs.Invalid, "its target is not valid UTF-8, and a stored tree holds no other")
	}
	if err != nil {
		return err
	}
	to.add(node{kind: vfs.LinkKind, name: name, target: target})
	p.report(func(p *Progress) { p.Links++ })
	return nil
}

// file stores one file. It leaves out a file that was removed since it was found.
func (p *putter) file(f vfs.File, to *pendingDir, name string) error {
	info, err := f.Stat(p.ctx)
	var c vfs.Content
	if err == nil {
		c, err = vfs.Open(p.ctx, f)
	}
	switch vfs.CodeOf(err) {
	case "":
	case vfs.NotFound:
		return nil
	default:
		return err
	}
	defer c.Close()
	if c.Size() < 0 {
		return vfs.Errorf(vfs.Invalid, "its size is below 0")
	}
	if bound := p.o.Bounds.Bytes; p.bytes.Add(c.Size()) > bound && bound > 0 {
		return vfs.Errorf(vfs.Limit, "the tree's files have more than %d bytes", bound)
	}
	digest, err := p.u.Add(p.ctx, io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return err
	}
	to.add(node{kind: vfs.FileKind, name: name, digest: digest, exec: info.Exec})
	p.report(func(p *Progress) {
		p.Files++
		p.Bytes += digest.Size
	})
	return nil
}
