package materialize

import (
	"crypto/sha256"
	"io"
	"os"
	"time"

	"capd/vfs"
	"capd/vfs/diff"
)

// file copies one file with the buffer buf, and computes its version meanwhile.
func (c *copier) file(j job, buf []byte) error {
	path := vfs.Join(j.in.path, j.name)
	n, err := j.in.from.Lookup(c.ctx, j.name)
	if err != nil {
		return c.skip(path, err)
	}
	defer n.Close()
	f, ok := n.(vfs.File)
	if !ok {
		c.leaveOut(path, whyGone)
		return nil
	}
	info, err := f.Stat(c.ctx)
	if err != nil {
		return c.skip(path, err)
	}
	if err := c.room(path, 1, info.Size); err != nil {
		return err
	}
	content, err := vfs.Open(c.ctx, f)
	if err != nil {
		return c.skip(path, err)
	}
	defer content.Close()
	perm := os.FileMode(0o600)
	if info.Exec {
		perm = 0o700
	}
	out, err := j.in.to.OpenFile(j.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return c.unmade(path, err)
	}
	defer out.Close()
	r := &record{state: diff.State{Kind: vfs.FileKind, Exec: info.Exec}}
	size, err := c.content(path, out, content, info.Size, r, buf)
	if err != nil {
		return err
	}
	setModified(j.in.to, j.name, info) // before its attributes are taken
	made, err := out.Stat()
	if err != nil {
		return explain(err)
	}
	r.attr = attrOf(made)
	c.add(path, r, size)
	return nil
}

// setModified sets the modification time of name in root to that of info; programs such
// as make compare times. A store without times has 0. If the host's file system does
// not accept the time, name keeps that of the copy.
func setModified(root *os.Root, name string, info vfs.Info) {
	if info.ModifiedMs != 0 {
		modified := time.UnixMilli(info.ModifiedMs)
		_ = root.Chtimes(name, modified, modified)
	}
}

// content copies all of content, which should have expected bytes, and stores its
// version in r.
func (c *copier) content(path string, out *os.File, content vfs.Content, expected int64, r *record, buf []byte) (size int64, err error) {
	from := io.ReaderAt(content)
	cloned, err := clone(content, out)
	if err != nil {
		return 0, err
	}
	if cloned {
		from = out
	}
	sum := sha256.New()
	for {
		n, err := from.ReadAt(buf, size)
		size += int64(n)
		if size > expected {
			if err := c.room(path, 0, size-expected); err != nil {
				return 0, err
			}
			expected = size
		}
		sum.Write(buf[:n])
		if !cloned {
			if _, werr := out.Write(buf[:n]); werr != nil {
				return 0, explain(werr)
			}
		}
		if err == io.EOF {
			r.state.Version = vfs.Version(sum.Sum(nil))
			return size, nil
		}
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return 0, err
		}
	}
}

// clone clones content into out without copying bytes, and reports whether it could.
func clone(content vfs.Content, out *os.File) (bool, error) {
	err := vfs.Clone(content, out.Fd())
	if vfs.CodeOf(err) == vfs.Unsupported {
		return false, nil
	}
	return err == nil, err
}
