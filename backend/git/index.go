package git

import (
	"bytes"
	"encoding/binary"
	"os"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"

	"capd/vfs"
)

// packIndex finds objects in a pack (gitformat-pack(5), version 2). All but the first
// kilobyte stays on disk: the index of a large repository is hundreds of megabytes.
type packIndex struct {
	f     *os.File
	fan   [256]uint32
	count int64
	wide  int64 // number of offsets above 2 GiB
}

const (
	idLen     = 20
	indexHead = 8 + 4*256
	indexTail = 2 * idLen
)

func openIndex(objects hostDir, name string) (*packIndex, error) {
	f, err := objects.open(name)
	if err != nil {
		return nil, err
	}
	x := &packIndex{f: f}
	if err := x.readHead(); err != nil {
		f.Close()
		return nil, err
	}
	return x, nil
}

func (x *packIndex) readHead() error {
	info, err := x.f.Stat()
	if err != nil {
		return err
	}
	var head [indexHead]byte
	if _, err := x.f.ReadAt(head[:], 0); err != nil {
		return errBadIndex
	}
	if !bytes.Equal(head[:8], []byte{0xff, 't', 'O', 'c', 0, 0, 0, 2}) {
		return flawed(vfs.Unsupported, "the index of a pack is not of version 2; run git repack -ad")
	}
	for i := range x.fan {
		x.fan[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && x.fan[i] < x.fan[i-1] {
			return errBadIndex
		}
	}
	x.count = int64(x.fan[255])
	rest := info.Size() - indexHead - indexTail - x.count*(idLen+4+4)
	if rest < 0 || rest%8 != 0 {
		return errBadIndex
	}
	x.wide = rest / 8
	return nil
}

var errBadIndex = flawed(vfs.Corrupt, "the index of a pack is damaged; git index-pack makes it anew")

// window is how many ids are read at once.
const window = 256

// find returns the offset of an object in the pack.
func (x *packIndex) find(id plumbing.Hash) (off int64, ok bool, err error) {
	at, have, err := x.search(id)
	if err != nil || have != id || at == x.count {
		return 0, false, err
	}
	off, err = x.offset(at)
	return off, err == nil, err
}

// search returns the first position whose id is not below the wanted one, and that id.
// If all ids are below, it returns the number of ids. It guesses the position, since
// ids are evenly distributed, and bisects when the guess was wrong.
func (x *packIndex) search(id plumbing.Hash) (at int64, have plumbing.Hash, err error) {
	lo, hi := int64(0), int64(x.fan[id[0]])
	if id[0] > 0 {
		lo = int64(x.fan[id[0]-1])
	}
	var buf [(window + 1) * idLen]byte
	share := float64(binary.BigEndian.Uint32(id[1:5])) / (1 << 32)
	for guess := lo + int64(share*float64(hi-lo)); hi-lo > window; guess = lo + (hi-lo)/2 {
		from := max(lo, min(guess-window/2, hi-window))
		if err := x.ids(buf[:window*idLen], from); err != nil {
			return 0, have, err
		}
		switch i := firstNotBelow(buf[:window*idLen], id); i {
		case 0:
			hi = from
		case window:
			lo = from + window
		default:
			return from + int64(i), plumbing.Hash(buf[i*idLen:][:idLen]), nil
		}
	}
	last := buf[:(min(hi+1, x.count)-lo)*idLen] // the id at hi may be the one
	if err := x.ids(last, lo); err != nil {
		return 0, have, err
	}
	i := firstNotBelow(last, id)
	if i*idLen < len(last) {
		have = plumbing.Hash(last[i*idLen:][:idLen])
	}
	return lo + int64(i), have, nil
}

// ids reads ids into b, from position at on.
func (x *packIndex) ids(b []byte, at int64) error {
	_, err := x.f.ReadAt(b, indexHead+at*idLen)
	return badIndex(err)
}

func firstNotBelow(ids []byte, id plumbing.Hash) int {
	return sort.Search(len(ids)/idLen, func(i int) bool { return bytes.Compare(ids[i*idLen:][:idLen], id[:]) >= 0 })
}

// withPrefix appends the ids that begin with prefix, up to most.
func (x *packIndex) withPrefix(ids []plumbing.Hash, prefix []byte, most int) ([]plumbing.Hash, error) {
	var id plumbing.Hash
	copy(id[:], prefix)
	at, _, err := x.search(id)
	for ; err == nil && at < x.count && len(ids) < most; at++ {
		if err = x.ids(id[:], at); err == nil && !bytes.HasPrefix(id[:], prefix) {
			break
		}
		ids = append(ids, id)
	}
	return ids, err
}

// offset returns the offset in the pack of the object at a position of the index.
func (x *packIndex) offset(at int64) (int64, error) {
	var b [8]byte
	base := indexHead + x.count*(idLen+4)
	if _, err := x.f.ReadAt(b[:4], base+at*4); err != nil {
		return 0, badIndex(err)
	}
	off := int64(binary.BigEndian.Uint32(b[:4]))
	if off < 1<<31 {
		return off, nil
	}
	if off -= 1 << 31; off >= x.wide {
		return 0, errBadIndex
	}
	if _, err := x.f.ReadAt(b[:], base+x.count*4+off*8); err != nil {
		return 0, badIndex(err)
	}
	far := binary.BigEndian.Uint64(b[:])
	if far >= 1<<63 {
		return 0, errBadIndex
	}
	return int64(far), nil
}

func badIndex(err error) error {
	if err == nil {
		return nil
	}
	if vfs.CodeOf(hidden(err)) == vfs.Internal {
		return errBadIndex
	}
	return hidden(err)
}
