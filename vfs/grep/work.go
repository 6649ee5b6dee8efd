package grep

import (
	"context"
	"errors"

	"capd/meter"
	"capd/vfs"
)

// Bounds of what is shown.
const (
	MaxAround    = 100     // lines before a match, and after it
	MaxLineBytes = 4 << 10 // of a line
	LineBytes    = 500     // of a line, unless more are asked for
)

// stepBytes is how many steps of making states cost as much as reading a byte does.
const stepBytes = 1

// worker searches files, one at a time.
type worker struct {
	*searcher
	show Show
	room room
	most int64 // bytes of one file that are read at once
	ctx  context.Context
	d    vfs.Dir
	buf  []byte
}

func (k *worker) work(j *job) {
	steps := k.dfa.steps
	for i := range j.runs {
		if j.err = k.run(j, &j.runs[i]); j.err != nil || j.cut {
			break
		}
	}
	j.read += (k.dfa.steps - steps) * stepBytes
}

// run searches the files of one directory.
func (k *worker) run(j *job, r *run) error {
	if err := meter.Yield(k.ctx); err != nil {
		return err
	}
	dir := names(r.dir)
	if r.from.offset > 0 { // where an earlier search stopped
		if err := k.open(j, r.dir, dir, r.names[0], r.from); err != nil {
			return err
		}
		r.names = r.names[1:]
	}
	for rest := r.names; len(rest) > 0 && !j.cut; {
		large, seen := "", len(rest)
		err := vfs.Visit(k.ctx, k.d, dir, rest, k.buf, func(f vfs.Visited) bool {
			switch {
			case f.Large:
				large = f.Name
				for i, name := range rest {
					if name == large {
						seen = i + 1
						break
					}
				}
				return false
			case f.Err != nil:
				return k.failed(j, r.dir, f.Name, f.Err) == nil
			}
			j.read += int64(len(f.Data)) + entryBytes
			k.whole(j, vfs.Join(r.dir, f.Name), f.Data)
			return !j.cut
		})
		if err != nil {
			return k.failed(j, r.dir, "", err)
		}
		if large != "" {
			if err := k.open(j, r.dir, dir, large, place{}); err != nil {
				return err
			}
		}
		rest = rest[seen:]
		if err := k.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// entryBytes is what a file costs besides its content, in bytes that are read.
const entryBytes = 4 << 10

// whole searches a file that is in the window.
func (k *worker) whole(j *job, path string, data []byte) {
	f := k.file(path, place{})
	f.window(data, true)
	k.keep(j, f)
}

func (k *worker) file(path string, from place) *fileSearch {
	return &fileSearch{searcher: k.searcher, show: k.show, room: k.room, File: File{Path: path, at: from}}
}

func (k *worker) keep(j *job, f *fileSearch) {
	if f.some() {
		j.found = append(j.found, f.File)
		j.bytes += f.bytes + len(f.Path)
		j.cut = j.bytes > k.room.bytes
	}
}

// some reports whether there is something to tell of the file.
func (f *fileSearch) some() bool {
	if f.Binary {
		f.Lines, f.stopped = nil, false
	}
	return f.Count > 0 || f.stopped || len(f.Lines) > 0
}

// open searches a file that does not fit into the window, or from the middle.
func (k *worker) open(j *job, at string, dir []string, name string, from place) error {
	f := k.file(vfs.Join(at, name), from)
	err := k.stream(f, dir, name, j)
	k.keep(j, f)
	if err != nil {
		return k.failed(j, at, name, err)
	}
	return nil
}

func (k *worker) stream(f *fileSearch, dir []string, name string, j *job) error {
	in, leave, err := vfs.Descend(k.ctx, k.d, dir)
	if err != nil {
		return err
	}
	defer leave()
	file, err := vfs.LookupAs[vfs.File](k.ctx, in, name, vfs.NotRegular)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := f.open(k.ctx, file, k.buf, k.most)
	j.read += n
	return err
}

// open searches file with a window of buf.
func (f *fileSearch) open(ctx context.Context, file vfs.File, buf []byte, most int64) (read int64, err error) {
	c, err := vfs.Open(ctx, file)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return f.stream(ctx, c, buf, most)
}

// failed notes what could not be read. It returns err if it ends the search.
func (k *worker) failed(j *job, at, name string, err error) error {
	switch vfs.CodeOf(err) {
	case vfs.Revoked, vfs.Expired:
		return err
	case vfs.NotFound, vfs.NotRegular, vfs.NotDir, vfs.IsDir, vfs.AskDenied:
		return nil // it is gone, or may not be read
	case vfs.Denied:
		if err == error(vfs.Denied) {
			return nil // withheld
		}
	case vfs.Limit:
		if !errors.Is(err, vfs.ErrTooDeep) && !errors.Is(err, vfs.ErrTooLong) {
			return err
		}
	}
	if err := k.ctx.Err(); err != nil {
		return err
	}
	j.missed = append(j.missed, missed{vfs.Join(at, name), err})
	return nil
}
