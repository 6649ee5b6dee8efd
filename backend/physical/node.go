package physical

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"

	"capd/vfs"
)

// node is what a Dir, a File and a Link have in common.
type node struct {
	s        *Store
	readOnly bool // every change answers readOnly
	closed   atomic.Bool
}

// like returns a node of the same root as n.
func (n *node) like() node { return node{s: n.s, readOnly: n.readOnly} }

// Close gives up this reference and nothing else.
func (n *node) Close() error {
	n.closed.Store(true)
	return nil
}

// Tries implements vfs.Trier.
func (n *node) Tries() bool { return n.s.host.tries() }

// Immutable implements vfs.Immutable.
func (n *node) Immutable() bool { return n.readOnly }

func (n *node) usable(ctx context.Context) error {
	if n.closed.Load() {
		return vfs.At("", vfs.Stale)
	}
	return ctx.Err()
}

// enter opens the directory at p. It waits for the disk if it has to. The caller passes the
// directory to Store.leave.
func (n *node) enter(ctx context.Context, p place) (directory, error) {
	if err := n.usable(ctx); err != nil {
		return nil, err
	}
	return n.s.enter(p)
}

// changeable is usable for a change.
func (n *node) changeable(ctx context.Context) error {
	if n.closed.Load() {
		return vfs.At("", vfs.Stale)
	}
	if n.readOnly {
		return vfs.At("", vfs.ReadOnly)
	}
	return ctx.Err()
}

// spot is a name in a directory. A File or a Link is one.
type spot struct {
	node
	in   place
	name string
	path string // from the root
}

// look returns the attributes of the node now at the spot.
func (p *spot) look(ctx context.Context) (attr, error) {
	if err := p.usable(ctx); err != nil {
		return attr{}, err
	}
	d, err := p.s.enterFor(ctx, p.in)
	if err != nil {
		return attr{}, err
	}
	defer p.s.leave(d)
	a, err := d.lstat(p.name)
	return a, absent(d, p.in, err)
}

// Link is a symbolic link. Nothing in this package follows it.
type Link struct{ spot }

var _ vfs.Link = (*Link)(nil)

// Stat answers stale when the link is no longer there.
func (l *Link) Stat(ctx context.Context) (vfs.Info, error) {
	a, err := l.look(ctx)
	if err != nil {
		return vfs.Info{}, err
	}
	if a.kind != vfs.LinkKind {
		return vfs.Info{}, vfs.At("", vfs.Stale)
	}
	return a.info(), nil
}

// Target returns the link's text as stored in the file system.
func (l *Link) Target(ctx context.Context) (string, error) {
	if err := l.usable(ctx); err != nil {
		return "", err
	}
	if vfs.IsTrying(ctx) {
		return "", vfs.ErrWouldBlock
	}
	d, err := l.s.enter(l.in)
	if err != nil {
		return "", err
	}
	defer l.s.leave(d)
	target, err := d.readlink(l.name)
	if err == nil {
		return target, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", explain(err)
	}
	if errors.Is(err, syscall.EINVAL) { // readlink(2): not a link, though it may be one again by now
		return "", vfs.At("", vfs.Stale)
	}
	if a, lerr := d.lstat(l.name); lerr == nil && a.kind != vfs.LinkKind {
		return "", vfs.At("", vfs.Stale)
	}
	return "", explain(err)
}
