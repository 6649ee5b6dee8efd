package physical

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"

	"capd/meter"
	"capd/vfs"
)

// settle is how long after a change another change may leave the same times: the
// kernel's clock for them ticks every 10 ms at worst. A file system that stores whole
// seconds is recognised by its times.
const (
	settle       = 20 * time.Millisecond
	settleCoarse = 3 * time.Second
)

// settlesIn returns how long it takes until a later write is sure to change a's times:
// 0 or less if it is so now. It returns false if it never will be.
func (a attr) settlesIn(now time.Time) (time.Duration, bool) {
	after := settle
	if a.ctime%1e9 == 0 {
		after = settleCoarse
	}
	return after - time.Duration(now.UnixNano()-a.ctime), a.ctime != 0 && a.ino != 0
}

// maxVersions bounds Store.versions. An entry is about 100 bytes.
const maxVersions = 1 << 15

// versionKey identifies a content. It changes with every write, even if the time of
// modification is set back.
type versionKey struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

func (a attr) versionKey() versionKey { return versionKey{a.dev, a.ino, a.size, a.mtime, a.ctime} }

// seen is what was found at a name, with its version if that was asked for. settled
// says that any later write will show in the attributes. Otherwise only the content
// tells.
type seen struct {
	exists  bool
	attr    attr
	version vfs.Version
	settled bool
}

// readInCommit is the size, in bytes, up to which a file may be read again inside
// Commit because its times do not tell yet whether it changed. A revoke waits for that
// read.
const readInCommit = 1 << 20

// settledVersionAt is versionAt for a condition. It waits, some 20 ms, until no long
// work is left for the commit.
func (s *Store) settledVersionAt(ctx context.Context, p place, name string) (seen, error) {
	for range 4 {
		v, err := s.versionAt(ctx, p, name)
		if err != nil || v.settled || v.attr.size <= readInCommit {
			return v, err
		}
		left, ever := v.attr.settlesIn(time.Now())
		if !ever || left > settleCoarse {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return seen{}, ctx.Err()
		case <-time.After(left + time.Millisecond):
		}
	}
	return seen{}, errKeepsChanging
}

// versionAt finds out the version of the file called name in p.
func (s *Store) versionAt(ctx context.Context, p place, name string) (seen, error) {
	d, err := s.enter(p)
	if err != nil {
		return seen{}, err
	}
	f, a, err := d.open(name, os.O_RDONLY)
	s.leave(d)
	if err != nil {
		return seen{}, explain(err)
	}
	defer f.Close()
	for range 4 {
		if err := vfs.CheckVersioned(a.size); err != nil {
			return seen{}, err
		}
		v := seen{exists: true, attr: a}
		var known bool
		if v.version, known = s.versions.Get(a.versionKey(), nil); known {
			v.settled = true
			return v, nil
		}
		left, ever := a.settlesIn(time.Now())
		v.settled = ever && left <= 0 && !process.writing.to(a.fileKey())
		if v.version, err = digest(ctx, f, vfs.MaxVersioned); err != nil {
			return seen{}, err
		}
		if a, err = attrOfFile(f); err != nil {
			return seen{}, explain(err)
		}
		if v.attr.unchanged(a) {
			if v.settled {
				s.versions.Add(a.versionKey(), v.version, 1)
			}
			return v, nil
		}
	}
	return seen{}, errKeepsChanging
}

// digest reads all of f. It stops when ctx ends, and when f is longer than most.
func digest(ctx context.Context, f *os.File, most int64) (vfs.Version, error) {
	h := sha256.New()
	p := newPiece()
	defer pieces.Put(p)
	buf := p.b[:]
	for off := int64(0); ; {
		if err := meter.Yield(ctx); err != nil {
			return vfs.Version{}, err
		}
		n, err := f.ReadAt(buf, off)
		h.Write(buf[:n])
		off += int64(n)
		if off > most {
			return vfs.Version{}, errKeepsChanging
		}
		if err == io.EOF {
			return vfs.Version(h.Sum(nil)), nil
		}
		if err != nil {
			return vfs.Version{}, explain(err)
		}
	}
}

// still reports whether f has the content that was seen. It may read all of f if f was
// written just before it was seen.
func (v seen) still(f *os.File, a attr) bool {
	if !v.attr.unmoved(a) {
		return false
	}
	if v.settled {
		return true
	}
	now, err := digest(context.Background(), f, v.attr.size)
	return err == nil && now == v.version
}
