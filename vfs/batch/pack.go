package batch

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"capd/vfs"
	"capd/vfs/diff"
)

// segment is where a content is in a pack, in bytes.
type segment struct{ Offset, Size int64 }

// source is a content to be packed.
type source struct {
	change *diff.Change
	backup bool // of what is in the target
	want   vfs.Version
	open   func(ctx context.Context) (io.ReadCloser, error)
}

// packer reads many sources as one stream, and checks that each is what it should be.
// So the journal writes one file, however many sources there are.
type packer struct {
	ctx     context.Context
	sources []source
	now     io.ReadCloser
	sum     hash.Hash
	begun   int64 // where the present source begins
	end     int64 // bytes so far
	packed  map[vfs.Version]segment
}

func (p *packer) Read(b []byte) (n int, err error) {
	for n == 0 && len(b) > 0 {
		if p.now == nil {
			if len(p.sources) == 0 {
				return 0, io.EOF
			}
			if p.now, err = p.sources[0].open(p.ctx); err != nil {
				return 0, p.failed(err)
			}
			p.sum, p.begun = sha256.New(), p.end
		}
		n, err = vfs.ReadFull(p.ctx, p.now, b)
		p.sum.Write(b[:n])
		p.end += int64(n)
		if long := vfs.CheckVersioned(p.end - p.begun); long != nil {
			err = long
		}
		if err == io.EOF {
			err = p.next()
		}
		if err != nil {
			return 0, p.failed(err)
		}
	}
	return n, nil
}

// next finishes one source.
func (p *packer) next() error {
	src := p.sources[0]
	p.now.Close()
	p.now = nil
	if vfs.Version(p.sum.Sum(nil)) != src.want {
		if src.backup {
			w := src.change.Conflict(diff.State{Kind: diff.Foreign})
			w.Why = "it was changed"
			return &diff.Conflicts{Paths: []diff.Conflict{w}}
		}
		return vfs.Errorf(vfs.Busy, "its content does not match its version; it may still be changing: try again")
	}
	p.packed[src.want] = segment{p.begun, p.end - p.begun}
	p.sources = p.sources[1:]
	return nil
}

func (p *packer) failed(err error) error {
	if _, ok := errors.AsType[*diff.Conflicts](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return vfs.At(p.sources[0].change.Path, err)
}

func (p *packer) close() {
	if p.now != nil {
		p.now.Close()
	}
}

// sources returns the contents that changes need, also to undo them, each once.
func sources(at *diff.Cursor, changes []diff.Change) []source {
	var all []source
	have := map[vfs.Version]bool{}
	add := func(s source) {
		if !have[s.want] {
			have[s.want] = true
			all = append(all, s)
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Was.Kind == vfs.FileKind {
			add(source{c, true, c.Was.Version, func(ctx context.Context) (io.ReadCloser, error) { return contentAt(ctx, at, c.Path) }})
		}
	}
	for i := range changes {
		c := &changes[i]
		if c.Is.Kind == vfs.FileKind {
			add(source{c, false, c.Is.Version, c.Content})
		}
	}
	return all
}

// contentAt opens the content of the file at path.
func contentAt(ctx context.Context, at *diff.Cursor, path string) (io.ReadCloser, error) {
	n, err := at.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	f, ok := n.(vfs.File)
	if !ok {
		n.Close()
		return nil, vfs.Conflict
	}
	return diff.ReadFile(ctx, f)
}

var errCopy = vfs.Errorf(vfs.Corrupt, "a copy in the journal is damaged")

// verify reads one content of a pack. Its end answers corrupt if it is not what it should
// be.
func verify(content io.ReaderAt, s segment, want vfs.Version) io.Reader {
	return vfs.NewVerified(io.NewSectionReader(content, s.Offset, s.Size), want, errCopy)
}
