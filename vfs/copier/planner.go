package copier

import (
	"context"

	"capd/vfs"
)

// planner is a sink that makes nothing. It notes what is to be copied.
type planner struct {
	node *node
	path int               // length of the node's path, with a slash
	hold func(int64) error // Options.Hold; nil for no bound
}

// nodeBytes is about what a node and its [vfs.Part] take, without their names, paths and targets.
const nodeBytes = 256

// Mkdir implements [Sink].
func (p planner) Mkdir(_ context.Context, name string, _ vfs.Info) (Sink, error) {
	n, err := p.add(name, vfs.DirKind, "")
	return planner{n, p.path + len(name) + 1, p.hold}, err
}

// File implements [Sink].
func (p planner) File(_ context.Context, name string, _ *File) error {
	_, err := p.add(name, vfs.FileKind, "")
	return err
}

// Link implements [Sink].
func (p planner) Link(_ context.Context, name, target string) error {
	_, err := p.add(name, vfs.LinkKind, target)
	return err
}

func (p planner) add(name string, kind vfs.Kind, target string) (*node, error) {
	if p.hold != nil {
		if err := p.hold(int64(nodeBytes + p.path + 2*len(name) + len(target))); err != nil {
			return nil, err
		}
	}
	return p.node.add(name, kind), nil
}

// End implements [Sink].
func (p planner) End(context.Context, bool) error {
	p.node.sort()
	return nil
}
