package git

import (
	"context"
	"crypto/sha256"
	"io"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"capd/vfs"
)

// Replace implements vfs.Dir.
func (d *dir) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	return d.replace(ctx, name, r, c, nil)
}

// Install implements vfs.Installer.
func (d *dir) Install(ctx context.Context, name string, r io.Reader, exec bool, c vfs.If) (vfs.Version, error) {
	mode := filemode.Regular
	if exec {
		mode = filemode.Executable
	}
	return d.replace(ctx, name, r, c, &mode)
}

func (d *dir) replace(ctx context.Context, name string, r io.Reader, c vfs.If, mode *filemode.FileMode) (vfs.Version, error) {
	if d.Immutable() {
		return vfs.Version{}, vfs.ReadOnly
	}
	if err := vfs.CheckName(name); err != nil {
		return vfs.Version{}, err
	}
	rep := replacement{in: d.at, name: name, c: c, mode: mode, find: func() (*item, error) {
		here, err := d.here()
		switch {
		case err != nil:
			return nil, err
		case here.submodule:
			return nil, errSubmodule
		}
		return here.find(name), nil
	}}
	return rep.run(ctx, r)
}

// Replace implements vfs.Replacer. It never creates a file.
func (f *file) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	rep := replacement{in: f.in, name: f.name, c: c, find: f.item}
	return rep.run(ctx, r)
}

// replacement is one replacement of a whole file.
type replacement struct {
	in   *place
	name string
	c    vfs.If
	mode *filemode.FileMode    // nil keeps the old one
	find func() (*item, error) // returns what is there now; nil if nothing

	fresh *content // nil until all is staged
}

func (rep *replacement) run(ctx context.Context, r io.Reader) (vfs.Version, error) {
	s := rep.in.store
	tries := 0
	// Check once before reading from the reader, which may be slow and large.
	_, err := s.plan(ctx, func() (step, error) { tries++; return rep.check(tries - 1) })
	if err != nil {
		return vfs.Version{}, err
	}
	fresh, version, err := s.stage(ctx, r)
	if err != nil {
		return vfs.Version{}, err
	}
	rep.fresh = fresh
	err = s.change(ctx, rep.check)
	if rep.fresh != nil { // it was not put in place
		fresh.release()
	}
	if err != nil {
		return vfs.Version{}, err
	}
	return version, nil
}

// check checks whether the replacement is possible, and returns the step. Needs
// Store.mu for reading.
func (rep *replacement) check(tries int) (step, error) {
	s := rep.in.store
	it, err := rep.find()
	if err != nil {
		return step{}, err
	}
	var grows vfs.Effect
	mode := filemode.Regular
	switch {
	case it == nil:
		err, grows.Nodes = checkNew(rep.name, vfs.FileKind), 1
	case it.kind() == vfs.DirKind:
		err = vfs.IsDir
	case it.kind() != vfs.FileKind:
		err = vfs.NotRegular
	default:
		grows.Bytes, err = s.size(it)
		grows.Bytes, mode = -grows.Bytes, it.mode
	}
	if err == nil {
		err = s.meets(rep.c, it, tries)
	}
	if err != nil || rep.fresh == nil {
		return step{}, err
	}
	if rep.mode != nil {
		mode = *rep.mode
	}
	grows.Bytes += rep.fresh.size
	return step{grows: grows, apply: func() error {
		in, err := rep.in.changeable()
		if err != nil {
			return err
		}
		ms := nowMs()
		in.put(rep.name, &item{entry: entry{name: rep.name, mode: mode}, data: rep.fresh, ms: ms}, ms)
		rep.fresh = nil
		return nil
	}}, nil
}

// stage reads all of r into a new content, whose version is then known.
func (s *Store) stage(ctx context.Context, r io.Reader) (*content, vfs.Version, error) {
	fresh := newContent(s.spool)
	v, err := fresh.readFrom(ctx, r)
	if err != nil {
		fresh.release()
		return nil, vfs.Version{}, err
	}
	return fresh, v, nil
}

// readFrom writes all of r to c, which is empty.
func (c *content) readFrom(ctx context.Context, r io.Reader) (v vfs.Version, err error) {
	h := sha256.New()
	buf := make([]byte, slotSize)
	for {
		n, end := vfs.ReadFull(ctx, r, buf)
		if end != nil && end != io.EOF {
			return v, end
		}
		if c.size+int64(n) > maxFile {
			return v, errTooLong
		}
		h.Write(buf[:n])
		if _, err := c.writeAt(buf[:n], c.size); err != nil {
			return v, err
		}
		if end == io.EOF {
			v = vfs.Version(h.Sum(nil))
			c.version.Store(&v)
			return v, nil
		}
	}
}
