package git

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/backend/internal/recent"
	"capd/vfs"
)

// pack is a packfile and its index (gitformat-pack(5)). It keeps nothing in memory
// except what is in bases. Safe for concurrent use.
type pack struct {
	f     *os.File
	path  string // of the index
	size  int64
	index *packIndex
	bases *recent.Cache[base, whole] // whole objects on which deltas were based, of all packs
}

// base is a position in a pack.
type base struct {
	p   *pack
	off int64
}

// whole is an object.
type whole struct {
	kind plumbing.ObjectType
	data []byte
}

// openPack opens the pack whose index is called name in an objects directory.
func openPack(objects hostDir, name string, bases *recent.Cache[base, whole]) (*pack, error) {
	index, err := openIndex(objects, name)
	if err != nil {
		return nil, err
	}
	p := &pack{path: objects.full(name), index: index, bases: bases}
	if p.f, err = objects.open(strings.TrimSuffix(name, ".idx") + ".pack"); err != nil {
		index.f.Close()
		return nil, err
	}
	if err := p.readHead(); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *pack) close() {
	p.f.Close()
	p.index.f.Close()
}

func (p *pack) readHead() error {
	info, err := p.f.Stat()
	if err != nil {
		return err
	}
	p.size = info.Size() - idLen // a checksum ends it
	var head [12]byte
	if _, err := p.f.ReadAt(head[:], 0); err != nil || !bytes.Equal(head[:4], []byte("PACK")) {
		return errBadPack
	}
	switch version := binary.BigEndian.Uint32(head[4:]); {
	case version != 2 && version != 3:
		return flawed(vfs.Unsupported, "a pack is of a version that is not known here")
	case int64(binary.BigEndian.Uint32(head[8:])) != p.index.count:
		return errBadPack
	}
	return nil
}

var errBadPack = flawed(vfs.Corrupt, "a pack is damaged or does not fit its index; git fsck finds out more")

// packed is the header of an object in a pack. in is at the beginning of its data.
type packed struct {
	kind plumbing.ObjectType
	size int64 // of the data; for a delta, of the delta
	base int64 // offset of a delta's base
	in   *inflater
}

// at reads the header of the object at off. The caller releases in.
func (p *pack) at(off int64) (o packed, err error) {
	if off < 12 || off >= p.size {
		return o, errMalformed
	}
	o.in = newInflater(io.NewSectionReader(p.f, off, p.size-off))
	if err := o.read(p, off); err != nil {
		o.in.release()
		return packed{}, err
	}
	return o, nil
}

func (o *packed) read(p *pack, off int64) error {
	r := o.in.in
	c, err := r.ReadByte()
	if err != nil {
		return err
	}
	o.kind, o.size = plumbing.ObjectType(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil {
			return err
		}
		if shift > 60-7 {
			return errMalformed
		}
		o.size |= int64(c&0x7f) << shift
	}
	if (o.size-maxRatio)/maxRatio > p.size-off {
		return errMalformed // too large for the rest of the pack
	}
	switch o.kind {
	case plumbing.OFSDeltaObject:
		back, err := readBack(r)
		if o.base = off - back; err != nil || back <= 0 || o.base < 12 {
			return errMalformed
		}
	case plumbing.REFDeltaObject:
		var id plumbing.Hash
		if _, err := io.ReadFull(r, id[:]); err != nil {
			return err
		}
		base, ok, err := p.index.find(id)
		if err != nil {
			return err
		}
		if !ok {
			return errMalformed // only incomplete packs have bases elsewhere
		}
		o.base = base
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	default:
		return errMalformed
	}
	return o.in.start()
}

func (o *packed) isDelta() bool { return o.kind.IsDelta() }

// readBack reads how far before a delta its base is.
func readBack(r io.ByteReader) (int64, error) {
	c, err := r.ReadByte()
	back := int64(c & 0x7f)
	for err == nil && c&0x80 != 0 {
		if back >= 1<<55 {
			return 0, errMalformed
		}
		c, err = r.ReadByte()
		back = (back+1)<<7 | int64(c&0x7f)
	}
	return back, err
}

// maxChain is how many deltas may be based one on another. It is more than git makes.
const maxChain = 4096

// head returns the kind and the size of the object at off. It reads nothing more of it.
func (p *pack) head(off int64) (kind plumbing.ObjectType, size int64, err error) {
	size = -1
	for range maxChain {
		o, err := p.at(off)
		if err != nil {
			return 0, 0, err
		}
		if size < 0 {
			if size = o.size; o.isDelta() {
				size, err = deltaSize(o.in.out)
			}
		}
		o.in.release()
		if err != nil || !o.isDelta() {
			return o.kind, size, err
		}
		off = o.base
	}
	return 0, 0, errMalformed
}

// deltaSize reads the size of a delta's result.
func deltaSize(delta io.Reader) (int64, error) {
	var head [2 * binary.MaxVarintLen64]byte
	n, err := io.ReadFull(delta, head[:])
	if err != nil && err != io.ErrUnexpectedEOF {
		return 0, err
	}
	_, first := binary.Uvarint(head[:n])
	if first <= 0 {
		return 0, errMalformed
	}
	size, second := binary.Uvarint(head[first:n])
	if second <= 0 || size >= 1<<62 {
		return 0, errMalformed
	}
	return int64(size), nil
}

// read returns the whole object at off, or errTooLarge if it or one of its bases is
// longer than most. It keeps two objects and a delta in memory. The caller must not
// change the result.
func (p *pack) read(off, most int64) (kind plumbing.ObjectType, data []byte, err error) {
	var deltas []int64 // the last is applied first
	for {
		if b, ok := p.bases.Get(base{p, off}, nil); ok {
			kind, data = b.kind, b.data
			break
		}
		o, err := p.at(off)
		if err != nil {
			return 0, nil, err
		}
		if !o.isDelta() {
			if kind, data, err = o.all(most); err != nil {
				return 0, nil, err
			}
			if len(deltas) > 0 {
				p.keep(off, kind, data)
			}
			break
		}
		o.in.release()
		if deltas = append(deltas, off); len(deltas) > maxChain {
			return 0, nil, errMalformed
		}
		off = o.base
	}
	for i := len(deltas) - 1; i >= 0; i-- {
		o, err := p.at(deltas[i])
		if err != nil {
			return 0, nil, err
		}
		_, delta, err := o.all(most)
		if err != nil {
			return 0, nil, err
		}
		if data, err = patch(data, delta, most); err != nil {
			return 0, nil, err
		}
		if i > 0 {
			p.keep(deltas[i], kind, data)
		}
	}
	return kind, data, nil
}

// all inflates the data and releases o.in.
func (o *packed) all(most int64) (plumbing.ObjectType, []byte, error) {
	defer o.in.release()
	if o.size > most {
		return 0, nil, errTooLarge
	}
	data, err := o.in.inflateAll(o.size)
	return o.kind, data, err
}

func (p *pack) keep(off int64, kind plumbing.ObjectType, data []byte) {
	p.bases.Add(base{p, off}, whole{kind, data}, int64(len(data)))
}
