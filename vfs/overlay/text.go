package overlay

import (
	"context"
	"io"

	"capd/vfs"
	"capd/vfs/batch"
	"capd/vfs/unified"
)

// Text writes c, which Diff answered, as a unified diff with git's headers. Of what is
// not text, or longer than [unified.MaxText], it only says that it differs. It answers
// conflict when the overlay, or what c was in the lower tree, changed since.
func (o *Overlay) Text(ctx context.Context, c Change, w io.Writer) error {
	if err := checkPath(c.Path); err != nil {
		return err
	}
	if c.Kind == Type && c.From != "" { // what was there goes, and the directory comes
		gone, came := c, c
		gone.Kind, gone.From, gone.Is = Removed, "", batch.State{}
		came.Kind, came.Was = Renamed, batch.State{}
		if err := o.Text(ctx, gone, w); err != nil {
			return err
		}
		return o.Text(ctx, came, w)
	}
	was, from, at := c.Was, c.Path, o.survey().compared(c.Path)
	if c.Kind == Renamed {
		was, from, at = c.Is, c.From, c.From
	}
	old, err := side(ctx, from, was, func() (vfs.Node, error) { return o.lowerAt(ctx, at) })
	if err != nil {
		return err
	}
	fresh, err := side(ctx, c.Path, c.Is, func() (vfs.Node, error) { return o.open(ctx, c.Path) })
	if err != nil {
		return err
	}
	same := was.Version == c.Is.Version && was.Target == c.Is.Target
	_, err = io.WriteString(w, unified.Format(old, fresh, same))
	return err
}

// compared is the lower path that Diff compares path with.
func (s *survey) compared(path string) string {
	if i, ok := s.at[path]; ok {
		return s.before(s.nodes[i])
	}
	return path
}

var errOutdated = vfs.Errorf(vfs.Conflict, "what this change compares is no longer there; ask for the changes again")

// side reads what is at path, which open opens and which has to be in the state s.
func side(ctx context.Context, path string, s batch.State, open func() (vfs.Node, error)) (unified.Side, error) {
	side := unified.Side{Path: path, Mode: mode(s), Text: s.Target}
	if s.Kind != vfs.FileKind {
		return side, nil
	}
	n, err := open()
	if missing(err) {
		return side, errOutdated
	}
	if err != nil {
		return side, err
	}
	defer n.Close()
	is, err := stateOf(ctx, n)
	if err != nil {
		return side, err
	}
	f, ok := n.(vfs.File)
	if !ok || is != s {
		return side, errOutdated
	}
	c, err := vfs.Open(ctx, f)
	if err != nil {
		return side, err
	}
	defer c.Close()
	b, err := io.ReadAll(io.NewSectionReader(c, 0, min(c.Size(), unified.MaxText+1)))
	side.Text, side.Opaque = unified.Content(b)
	return side, err
}

// mode is s's kind as git has it.
func mode(s batch.State) uint32 {
	switch {
	case s.Absent():
		return unified.Nothing
	case s.Kind == vfs.DirKind:
		return unified.Directory
	case s.Kind == vfs.LinkKind:
		return unified.Link
	case s.Exec:
		return unified.Executable
	}
	return unified.File
}
