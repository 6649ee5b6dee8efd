package physical

import (
	"context"
	"io"
	"math"
	"os"
	"time"

	"capd/vfs"
)

// A change in place uses a descriptor that was opened inside Commit, of a file that had
// this name then and no other. Otherwise a change through one name would show through
// all others, even outside the served directory. The change counts as made at that
// moment. If another program then moves or links the file away, the change goes with
// it. For the guests of all Stores of the process the condition and the change are one
// step. Another program of the host may write in between, as with any write in place.

// WriteAt writes in place. After a failure the first n bytes were written.
func (f *File) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (n int, err error) {
	if err := f.changeable(ctx); err != nil {
		return 0, err
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, vfs.ErrOffset
	}
	end := off + int64(len(p))
	if len(p) == 0 {
		end = 0 // nothing is written, and nothing grows
	}
	err = f.change(ctx, os.O_WRONLY, c,
		func(size int64) int64 { return max(size, end) },
		func(file *os.File, _ int64) (err error) { n, err = file.WriteAt(p, off); return })
	return n, err
}

// Truncate cuts or adds zeros in place.
func (f *File) Truncate(ctx context.Context, size int64, c vfs.If) error {
	if err := f.changeable(ctx); err != nil {
		return err
	}
	if size < 0 {
		return vfs.ErrOffset
	}
	return f.change(ctx, os.O_WRONLY, c,
		func(int64) int64 { return size },
		func(file *os.File, _ int64) error { return file.Truncate(size) })
}

// Append writes all of p, or nothing if it fails.
func (f *File) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	err = f.change(ctx, os.O_WRONLY|os.O_APPEND, c,
		func(size int64) int64 { return size + int64(len(p)) },
		func(file *os.File, size int64) error {
			off = size
			n, err := file.Write(p)
			end, serr := file.Seek(0, io.SeekCurrent)
			if err == nil {
				if serr == nil && n > 0 {
					off = end - int64(n) // where it was written, even with concurrent appends
				}
				return nil
			}
			if now, serr := attrOfFile(file); serr == nil && n > 0 && now.size == size+int64(n) {
				file.Truncate(size)
			}
			return err
		})
	return off, err
}

// SetAttributes implements vfs.Attributer. Whoever may read a file that is made executable may
// execute it.
func (f *File) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	if err := a.CheckFor(f); err != nil {
		return err
	}
	return f.change(ctx, openToSync, c,
		func(size int64) int64 { return size },
		func(file *os.File, _ int64) error {
			if a.Exec != nil {
				is, err := attrOfFile(file)
				if err == nil && (is.perm&0o100 != 0) != *a.Exec {
					err = file.Chmod(executable(is.perm, *a.Exec))
				}
				if err != nil {
					return err
				}
			}
			if a.ModifiedMs == nil {
				return nil
			}
			return setModified(file, time.UnixMilli(*a.ModifiedMs))
		})
}

// change opens the file for writing and changes it inside Commit. sizeAfter returns the
// size after the change, given the size before.
func (f *File) change(ctx context.Context, flag int, c vfs.If, sizeAfter func(size int64) int64, do func(file *os.File, size int64) error) error {
	if err := f.changeable(ctx); err != nil {
		return err
	}
	var was seen
	var unsettled bool
	return commit(ctx,
		func() (vfs.Staged, error) {
			if unsettled {
				if err := was.attr.pause(ctx); err != nil {
					return vfs.Staged{}, err
				}
			}
			var err error
			if was, err = f.writable(ctx, c); err != nil {
				return vfs.Staged{}, err
			}
			return vfs.Staged{Grows: vfs.Effect{Bytes: max(0, sizeAfter(was.attr.size)-was.attr.size)}, Was: was.attr.info()}, nil
		},
		func(most vfs.Effect) (e vfs.Effect, again bool, err error) {
			defer f.s.lock(f.path)()
			file, a, err := f.openBy(context.Background(), flag, directory.openSole)
			if unsettled = err == errUnsettled; unsettled {
				return e, true, nil
			}
			if err != nil {
				return e, false, err
			}
			defer file.Close()
			if sizeAfter(a.size)-a.size > most.Bytes {
				return e, true, nil
			}
			if !c.IsZero() && (!was.attr.unchanged(a) || !was.settled && !f.unwritten(was, a)) {
				return e, true, nil
			}
			defer process.writing.begin(a.fileKey())()
			err = do(file, a.size)
			e.Bytes = f.measured(file, a.size, sizeAfter(a.size))
			return e, false, explain(err)
		})
}

// pause waits until the clock tick in which a was changed is over, but at most one
// tick.
func (a attr) pause(ctx context.Context) error {
	left := 5 * time.Millisecond
	if a.ctime%1e9 == 0 { // the file system stores whole seconds
		left += min(time.Until(time.Unix(0, a.ctime+1e9)), time.Second)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(left):
		return nil
	}
}

// writable looks at the file that a change would change.
func (f *File) writable(ctx context.Context, c vfs.If) (seen, error) {
	was, err := f.dir().seen(ctx, f.name, c)
	switch {
	case err != nil:
	case !was.exists:
		err = vfs.NotFound
	default:
		err = was.attr.regular()
	}
	if err != nil {
		return seen{}, held(err)
	}
	return was, c.Check(true, was.version)
}

// unwritten reports whether the file still has the content that was seen. It reads the
// file, since its times do not tell.
func (f *File) unwritten(was seen, a attr) bool {
	file, b, err := f.open(context.Background(), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer file.Close()
	return a.same(b) && was.still(file, b)
}

// measured returns by how much file grew. If that cannot be measured, it returns how
// much it should have grown.
func (f *File) measured(file *os.File, before, after int64) int64 {
	if a, err := attrOfFile(file); err == nil {
		f.s.host.changed(a)
		after = a.size
	}
	return after - before
}
