package change

import (
	"context"
	"crypto/sha256"
	"io"

	"capd/meter"
	"capd/vfs"
	"capd/vfs/edit"
	"capd/vfs/step"
)

// compares answers conflict unless the condition of s holds for n, which is at its path. Whoever asks must be allowed to know: a rule that
// asks before reads asks.
func (p *planner) compares(n *node, s *step.Step) error {
	if !s.If.Is.IsZero() && p.own != nil && n.is == n.was && n.is.Kind == vfs.FileKind {
		f, err := p.ownFile(s.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		is, err := vfs.VersionOf(p.ctx, f)
		if err != nil {
			return err
		}
		if is != n.is.Version {
			return vfs.Errorf(vfs.Conflict, "somebody else changes it at the same time; read it again")
		}
	}
	return meets(n.is, s.If)
}

// ownFile opens the file at path as whoever asks sees it.
func (p *planner) ownFile(path string) (vfs.File, error) {
	n, err := vfs.WalkLink(p.ctx, p.own, path)
	if err != nil {
		return nil, err
	}
	return vfs.AsFile(n)
}

// edit plans the edits of s in n, a file.
func (p *planner) edit(n *node, s *step.Step) error {
	switch n.is.Kind {
	case vfs.FileKind:
	case vfs.Other:
		return vfs.NotFound
	case vfs.DirKind:
		return vfs.IsDir
	default:
		return vfs.Errorf(vfs.NotRegular, "a link is there, and a change follows none; name what it leads to")
	}
	for _, e := range s.Edits {
		if e.ByLines && s.If.Is.IsZero() {
			return vfs.Errorf(vfs.Invalid, "an edit by lines needs the version that the lines were read with; pass it as the condition")
		}
	}
	if n.size > edit.MaxSize {
		return edit.ErrSize(n.size)
	}
	if err := p.held.Take(2 * n.size); err != nil {
		return err
	}
	data, err := p.content(n, s.Path)
	if err != nil {
		return err
	}
	if sha256.Sum256(data) != n.is.Version {
		return vfs.Errorf(vfs.Conflict, "somebody else changes it at the same time; read it again")
	}
	made, err := edit.Apply(data, s.Edits, func() error { return meter.Yield(p.ctx) })
	if err != nil {
		return err
	}
	s.Data = made.Content
	return p.put(n, s)
}

// content reads what is in n, which is at path, as far as the steps have come. What no step has written, whoever asks reads.
func (p *planner) content(n *node, path string) ([]byte, error) {
	open := n.open
	if n.is == n.was && p.own != nil {
		open = func(ctx context.Context) (io.ReadCloser, error) {
			f, err := p.ownFile(path)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			c, err := vfs.Open(ctx, f)
			if err != nil {
				return nil, err
			}
			return struct {
				io.Reader
				io.Closer
			}{io.NewSectionReader(c, 0, c.Size()), c}, nil
		}
	}
	r, err := open(p.ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, n.size+1))
}
