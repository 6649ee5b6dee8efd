package overlay

import (
	"context"
	"errors"
	"io"
	"math"

	"capd/vfs"
)

// WriteAt implements vfs.File. An empty p neither lengthens the file nor copies it.
func (f *file) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (n int, err error) {
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, vfs.ErrOffset
	}
	err = f.write(ctx, c, inPlace{
		plan: func(size int64) (int64, bool) { return max(size, off+int64(len(p))), len(p) > 0 },
		keep: math.MaxInt64,
		do: func(ctx context.Context, at vfs.File, _ int64) error {
			n, err = at.WriteAt(ctx, p, off, vfs.If{})
			return err
		},
	})
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Append implements vfs.Appender.
func (f *file) Append(ctx context.Context, p []byte, c vfs.If) (off int64, err error) {
	err = f.write(ctx, c, inPlace{
		plan: func(size int64) (int64, bool) {
			off = size
			if int64(len(p)) > math.MaxInt64-size {
				return size, false
			}
			return size + int64(len(p)), len(p) > 0
		},
		keep: math.MaxInt64,
		do: func(ctx context.Context, at vfs.File, size int64) error {
			_, err := at.WriteAt(ctx, p, size, vfs.If{})
			return err
		},
	})
	if err != nil {
		return 0, err
	}
	return off, nil
}

// Truncate implements vfs.File. If the size stays the same, it copies nothing.
func (f *file) Truncate(ctx context.Context, size int64, c vfs.If) error {
	if size < 0 {
		return vfs.ErrOffset
	}
	return f.write(ctx, c, inPlace{
		plan: func(old int64) (int64, bool) { return size, size != old },
		keep: size,
		do:   func(ctx context.Context, at vfs.File, _ int64) error { return at.Truncate(ctx, size, vfs.If{}) },
	})
}

// inPlace is a write in place to a file. size is in bytes.
type inPlace struct {
	plan func(size int64) (after int64, changes bool)
	keep int64 // how many bytes of the old content are needed at most
	do   func(ctx context.Context, at vfs.File, size int64) error

	sets *vfs.Attributes // what is set; nil for a write of content
}

// planned returns the size after w of the file that was so before, and whether w changes it.
func (w inPlace) planned(was vfs.Info) (after int64, changes bool) {
	if w.sets != nil {
		return was.Size, w.sets.Change(was)
	}
	return w.plan(was.Size)
}

// SetAttributes implements vfs.Attributer. The overlay keeps the executable bit itself, and
// the store of its contents the time.
func (f *file) SetAttributes(ctx context.Context, a vfs.Attributes, c vfs.If) error {
	if err := a.CheckFor(f); err != nil {
		return err
	}
	return f.write(ctx, c, inPlace{
		sets: &a,
		keep: math.MaxInt64,
		do: func(ctx context.Context, at vfs.File, _ int64) error {
			if a.ModifiedMs == nil {
				return nil
			}
			return vfs.SetAttributes(ctx, at, vfs.Attributes{ModifiedMs: a.ModifiedMs}, vfs.If{})
		},
	})
}

// copied is a copy of a file of the lower tree, made to be written to.
type copied struct {
	content *content
	was     vfs.Info    // of the original
	version vfs.Version // likewise; of a whole copy, its own
	bytes   int64
	grows   int64 // by how many bytes the write itself grows it
	end     func()
}

var errOvertaken = errors.New("overlay: the file was changed while it was copied")

// copyTries is how often a file may change while it is copied.
const copyTries = 4

// write makes the write w to f. It first copies a file of the lower tree, with nothing
// locked.
func (f *file) write(ctx context.Context, c vfs.If, w inPlace) error {
	for range copyTries {
		ctx, up, err := f.copyUp(ctx, c, w)
		if err != nil {
			return err
		}
		used := false
		err = f.o.change(ctx, func(ctx context.Context) (*step, error) {
			s, err := f.replaceable(ctx, f.name, c)
			if err != nil {
				return nil, err
			}
			defer s.close()
			st, err := s.writes(ctx, w, up)
			if err == nil && len(st.edits) > 0 {
				st.made = func() { used = true }
			}
			return st, err
		})
		if up != nil {
			if !used {
				f.o.contents.remove(ctx, up.content)
			}
			up.end()
		}
		if err != errOvertaken {
			return err
		}
	}
	return errChanging
}

// copyUp copies the file at f's place if it is in the lower tree, w changes it, and the
// commit would not be refused for its size. The copy counts as staged until it is in
// the tree or removed; the caller then calls its end.
//
// It returns the context for the write. That context does not end if the commit that
// asked had begun before ctx ended.
func (f *file) copyUp(ctx context.Context, c vfs.If, w inPlace) (context.Context, *copied, error) {
	var old vfs.Content
	var up *copied
	err := f.o.inTurn(ctx, func(ctx context.Context) (err error) {
		old, up, err = f.original(ctx, c, w)
		return err
	})
	if err != nil || old == nil {
		return ctx, nil, err
	}
	defer old.Close()
	most := vfs.Effect{Bytes: max(up.bytes+up.grows, 0)}
	err = vfs.Probe(ctx, most)
	if err == nil && vfs.NeedsReady(ctx) {
		err = vfs.Ready(ctx, vfs.Staged{Grows: most, Was: up.was})
	}
	if err != nil {
		return ctx, nil, err
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if up.end, err = f.o.copies.begin(ctx, up.bytes); err != nil {
		return ctx, nil, err
	}
	var is vfs.Version
	if up.content, is, err = f.o.contents.stage(ctx, io.NewSectionReader(old, 0, up.bytes)); err != nil {
		up.end()
		return ctx, nil, err
	}
	if up.bytes == old.Size() && !up.version.IsZero() {
		up.version = is // the file may have had another content for a moment
	}
	return ctx, up, nil
}

// original opens the content that copyUp copies; nil if there is nothing to copy. The
// caller holds the turn.
func (f *file) original(ctx context.Context, c vfs.If, w inPlace) (vfs.Content, *copied, error) {
	s, err := f.replaceable(ctx, f.name, c)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	was, err := s.info(ctx)
	if err != nil {
		return nil, nil, err
	}
	after, changes := w.planned(was)
	if !changes || s.content != nil {
		return nil, nil, nil
	}
	if err := f.o.checkSize(after); err != nil {
		return nil, nil, err
	}
	state, err := s.state(ctx)
	if err != nil {
		return nil, nil, err
	}
	at, err := s.file(ctx)
	if err != nil {
		return nil, nil, err
	}
	old, err := vfs.Open(context.WithoutCancel(ctx), at) // see copyUp for the context of its reads
	if err != nil {
		return nil, nil, err
	}
	return old, &copied{was: was, version: state.Version, bytes: min(w.keep, old.Size()), grows: after - was.Size}, nil
}

// writes plans the write w to the file at s. up is the copy of that file, if it is in
// the lower tree.
func (s *spot) writes(ctx context.Context, w inPlace, up *copied) (*step, error) {
	was, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	size := was.Size
	after, changes := w.planned(was)
	if !changes {
		return &step{}, nil
	}
	if err := s.ref.o.checkSize(after); err != nil {
		return nil, err
	}
	to := s.content
	st := &step{grows: vfs.Effect{Bytes: after - size}, was: was}
	if to == nil {
		original, err := s.state(ctx)
		if err != nil {
			return nil, err
		}
		if up == nil || up.version != original.Version || up.bytes != min(w.keep, size) {
			return nil, errOvertaken
		}
		exec, err := s.executable(ctx)
		if err != nil {
			return nil, err
		}
		if w.sets != nil && w.sets.Exec != nil {
			exec = *w.sets.Exec
		}
		if st.edits, err = s.remember(ctx); err != nil {
			return nil, err
		}
		st.edits = append(st.edits, sets(s.path, state{Kind: vfs.FileKind, Content: up.content.id, Exec: exec}))
		st.copies, to = up.bytes, up.content
	} else if w.sets != nil && w.sets.Exec != nil && *w.sets.Exec != s.exec {
		st.edits = []edit{sets(s.path, state{Kind: vfs.FileKind, Content: to.id, Exec: *w.sets.Exec})}
	}
	st.write = func(ctx context.Context) (int64, error) {
		at, err := s.ref.o.contents.file(ctx, to)
		if err != nil {
			return 0, err
		}
		to.writes.Add(1)
		err = w.do(ctx, at, size)
		to.writes.Add(1)
		if err == nil || s.content == nil { // after a failure the copy is not used
			return 0, err
		}
		info, late := at.Stat(ctx)
		if late != nil {
			return 0, err
		}
		return info.Size - size, err
	}
	return st, nil
}
