package authority

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/unified"
)

// maxCompared is the size of the longest content that is compared for an operator, in bytes.
const maxCompared = 256 << 10

// content is what a file holds before or after a change.
type content struct {
	there bool
	size  int64
	data  []byte // nil if it is longer than maxCompared
	mode  uint32
}

// shown shows an operator what c would change: the difference of two texts, or their sizes.
func (c *change) shown(ctx context.Context, s vfs.Staged) string {
	switch c.op.Kind {
	case membrane.OpReplace, membrane.OpWrite, membrane.OpTruncate, membrane.OpAppend, membrane.OpRemove:
	case membrane.OpSymlink:
		return fmt.Sprintf("a link to %s\n", vfs.Printable(string(s.Bound.Data)))
	case membrane.OpAttributes:
		return s.Bound.Attributes.String() + "\n"
	default:
		return list(s.Bound.Parts) // of anything else the paths say it
	}
	was, err := c.host.present(ctx, c.op.Path)
	if err != nil {
		return "(what is there cannot be read, so the change is not shown)\n"
	}
	now, err := c.future(ctx, was, s)
	if err != nil {
		return "(what is to be written cannot be read, so it is not shown)\n"
	}
	if !was.isText() || !now.isText() {
		return fmt.Sprintf("%d bytes → %d bytes\n", was.size, now.size)
	}
	text, _ := unified.Format(was.side(c.op.Path), now.side(c.op.Path), unified.InPlace, false)
	return text
}

// present returns what the file at path holds now.
func (h *Host) present(ctx context.Context, path string) (is content, err error) {
	n, err := vfs.Walk(vfs.WithCall(ctx, vfs.Call{}), h.root, path)
	if vfs.CodeOf(err) == vfs.NotFound {
		return is, nil
	}
	if err != nil {
		return is, err
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		return is, vfs.NotRegular
	}
	info, err := f.Stat(ctx)
	if err != nil {
		return is, err
	}
	open, err := vfs.Open(ctx, f)
	if err != nil {
		return is, err
	}
	is, err = read(open)
	if info.Exec {
		is.mode = unified.Executable
	}
	return is, err
}

// future returns what the file will hold.
func (c *change) future(ctx context.Context, was content, s vfs.Staged) (content, error) {
	b := s.Bound
	end := was.size
	switch {
	case s.Content != nil:
		open, err := s.Content.Open(ctx)
		if err != nil {
			return content{}, err
		}
		now, err := read(open)
		now.mode = cmp.Or(was.mode, unified.File)
		if b.Exec {
			now.mode = unified.Executable
		}
		return now, err
	case c.op.Kind == membrane.OpRemove:
		return content{}, nil
	case c.op.Kind == membrane.OpTruncate:
		return was.with(nil, 0, b.Offset), nil
	case c.op.Kind == membrane.OpWrite:
		return was.with(b.Data, b.Offset, max(end, b.Offset+int64(len(b.Data)))), nil
	}
	return was.with(b.Data, end, end+int64(len(b.Data))), nil
}

// with returns c after data was written at off, with the size size.
func (c content) with(data []byte, off, size int64) content {
	now := content{there: true, size: size, mode: c.mode}
	if c.size > maxCompared || size > maxCompared {
		return now
	}
	now.data = make([]byte, size)
	copy(now.data, c.data)
	if len(data) > 0 {
		copy(now.data[off:], data)
	}
	return now
}

// read reads a content, and closes it.
func read(from vfs.Content) (content, error) {
	defer from.Close()
	c := content{there: true, size: from.Size(), mode: unified.File}
	if c.size > maxCompared {
		return c, nil
	}
	data, err := io.ReadAll(io.NewSectionReader(from, 0, c.size))
	c.data = data
	return c, err
}

func (c content) isText() bool {
	return c.size <= maxCompared && utf8.Valid(c.data) && bytes.IndexByte(c.data, 0) < 0
}

func (c content) side(path string) unified.Side {
	s := unified.Side{Path: path, Data: c.data}
	if c.there {
		s.Mode = c.mode
	}
	return s
}
