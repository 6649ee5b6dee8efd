package unified

import (
	"cmp"
	"context"
	"io"

	"capd/vfs"
	"capd/vfs/diff"
)

// Text returns c, whose new content comes from where h says, as git diff shows it. It
// reads c.Old and c.Content, unless only the mode changed. lacks says, for people, what
// of c the text leaves out; "" means nothing. A content longer than [MaxData], or whose
// opener answers tooLarge, is left out. Text returns the other errors of the openers.
func (h How) Text(ctx context.Context, c diff.Change) (text, lacks string, err error) {
	same := c.Kind == diff.Mode
	if same {
		c.Old, c.Content = nil, nil
	}
	from, err := sideOf(ctx, cmp.Or(c.From, c.Path), c.Was, c.Old)
	if err != nil {
		return "", "", err
	}
	to, err := sideOf(ctx, c.Path, c.Is, c.Content)
	if err != nil {
		return "", "", err
	}
	text, whole := Format(from, to, h, same)
	switch {
	case from.Mode == Submodule || to.Mode == Submodule:
		lacks = vfs.Printable(c.Path) + " is a submodule"
	case !whole:
		lacks = vfs.Printable(c.Path) + " is too long (" + Bounds + ")"
	}
	return text, lacks, nil
}

// sideOf returns the side that is s at path. open may be nil.
func sideOf(ctx context.Context, path string, s diff.State, open func(context.Context) (io.ReadCloser, error)) (Side, error) {
	side := Side{Path: path, Mode: modeOf(s), Data: []byte(s.Target)}
	switch {
	case side.Mode == Submodule:
		side.Data = []byte("Subproject commit " + s.Target + "\n")
	case open != nil && (s.Kind == vfs.FileKind || s.Kind == vfs.LinkKind && s.Target == ""):
		r, err := open(ctx)
		if side.Long = vfs.CodeOf(err) == vfs.TooLarge; side.Long {
			return side, nil
		}
		if err != nil {
			return side, err
		}
		defer r.Close()
		side.Data, err = io.ReadAll(io.LimitReader(r, MaxData+1))
		side.Long = len(side.Data) > MaxData
		return side, err
	}
	return side, nil
}

// modeOf returns git's mode for s. To git a directory is nothing.
func modeOf(s diff.State) uint32 {
	switch {
	case s.Kind == vfs.DirKind && s.Target != "":
		return Submodule
	case s.Absent(), s.Kind == vfs.DirKind:
		return Nothing
	case s.Kind == vfs.LinkKind:
		return Link
	case s.Exec:
		return Executable
	}
	return File
}
