package client

import (
	"cmp"
	"context"
	"io"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// File is a file that a host serves. It implements vfs.File and has more methods of its
// own.
type File struct{ ref }

var (
	_ vfs.File      = (*File)(nil)
	_ vfs.Opener    = (*File)(nil)
	_ vfs.Versioner = (*File)(nil)
	_ vfs.Appender  = (*File)(nil)
	_ vfs.Duper     = (*File)(nil)
)

func newFile(c *vat.Cap) *File { return &File{ref{cap: c}} }

// ReadOnly returns the same file without the right to change it.
func (f *File) ReadOnly() *File {
	return newFile(derived(f.open(), f.cap, schema.File_readOnly, nil, schema.File_readOnly_Results_file))
}

// Revocable returns another capability to the same file, and its Revoker.
func (f *File) Revocable() (*File, *Revoker) {
	if err := f.open(); err != nil {
		return newFile(broken(err)), &Revoker{broken(err)}
	}
	a := vat.Send(context.Background(), f.cap, schema.File_revocable, nil)
	defer a.Release()
	return newFile(a.Cap(schema.File_revocable_Results_file)), &Revoker{a.Cap(schema.File_revocable_Results_revoker)}
}

// Dup implements vfs.Duper.
func (f *File) Dup() (vfs.Node, error) { return again(&f.ref, newFile) }

// Help returns the host's description of a File, or of one of its methods.
func (f *File) Help(ctx context.Context, method string) (string, error) {
	return wire.AskHelp(ctx, f.cap, schema.File_help, method)
}

// Stat implements vfs.Node.
func (f *File) Stat(ctx context.Context) (vfs.Info, error) {
	info, _, err := f.stat(ctx, false)
	return info, err
}

// Version implements vfs.Versioner.
func (f *File) Version(ctx context.Context) (vfs.Version, error) {
	_, v, err := f.stat(ctx, true)
	return v, err
}

func (f *File) stat(ctx context.Context, withVersion bool) (info vfs.Info, v vfs.Version, err error) {
	err = do(ctx, &f.ref, schema.File_stat, func(p schema.File_stat_Params, _ *vat.Caps) error {
		p.SetWithVersion(withVersion)
		return nil
	}, func(r schema.File_stat_Results, _ *vat.Caps) error {
		st, err := r.Stat()
		if info, err = infoOf(st, err, vfs.FileKind); err != nil {
			return err
		}
		v, err = wire.Version(st.Version())
		return err
	})
	return info, v, err
}

// ReadText returns the whole content, at most 4 MiB, and its version.
func (f *File) ReadText(ctx context.Context) (text string, v vfs.Version, err error) {
	err = do(ctx, &f.ref, schema.File_readText, nil, func(r schema.File_readText_Results, _ *vat.Caps) error {
		if text, err = r.Text(); err != nil {
			return err
		}
		v, err = wire.Version(r.Version())
		return err
	})
	return text, v, err
}

// ReadBytes returns the whole content, at most 4 MiB, and its version.
func (f *File) ReadBytes(ctx context.Context) (data []byte, v vfs.Version, err error) {
	err = do(ctx, &f.ref, schema.File_readBytes, nil, func(r schema.File_readBytes_Results, _ *vat.Caps) error {
		b, err := r.Data()
		if err != nil {
			return err
		}
		data = append([]byte(nil), b...)
		v, err = wire.Version(r.Version())
		return err
	})
	return data, v, err
}

// ReadAt implements vfs.File. It splits a long read into several calls.
func (f *File) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, vfs.Errorf(vfs.Invalid, "an offset is negative")
	}
	total := 0
	for {
		part := p[total:min(len(p), total+wire.MaxChunk)]
		n, err := f.read(ctx, part, off+int64(total))
		total += n
		if err != nil || total == len(p) {
			return total, err
		}
	}
}

// View calls use with up to n bytes from off, at most 1 MiB, without copying them. They
// are valid only until use returns. There are fewer than n only at the end of the file,
// where eof is true. View returns the error of use.
func (f *File) View(ctx context.Context, off int64, n int, use func(b []byte, eof bool) error) error {
	if err := f.open(); err != nil {
		return err
	}
	if off < 0 || n < 0 {
		return vfs.Errorf(vfs.Invalid, "an offset or a length is negative")
	}
	if err := wire.CheckChunk(n); err != nil {
		return err
	}
	return f.view(ctx, off, n, use)
}

func (f *File) view(ctx context.Context, off int64, n int, use func(b []byte, eof bool) error) error {
	var failed error
	err := wire.Do(ctx, f.cap, schema.File_read, func(a schema.File_read_Params, _ *vat.Caps) error {
		a.SetOffset(uint64(off))
		a.SetLength(uint32(n))
		return nil
	}, func(r schema.File_read_Results, _ *vat.Caps) error {
		b, err := r.Data()
		if err != nil {
			return err
		}
		if len(b) > n || len(b) < n && !r.Eof() {
			return vfs.Errorf(vfs.Corrupt, "the host answered another length than the requested one")
		}
		failed = use(b, r.Eof())
		return nil
	})
	return cmp.Or(err, failed)
}

func (f *File) read(ctx context.Context, p []byte, off int64) (n int, err error) {
	eof := false
	err = f.view(ctx, off, len(p), func(b []byte, end bool) error {
		n, eof = copy(p, b), end
		return nil
	})
	if err == nil && eof {
		return n, io.EOF
	}
	return n, err
}

// WriteAt implements vfs.File. It splits a long write into several calls, each a change
// of its own. With a condition, a write of more than 1 MiB is tooLarge.
func (f *File) WriteAt(ctx context.Context, p []byte, off int64, c vfs.If) (int, error) {
	if err := f.open(); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, vfs.Errorf(vfs.Invalid, "an offset is negative")
	}
	if !c.IsZero() {
		if err := wire.CheckChunk(len(p)); err != nil {
			return 0, err
		}
	}
	total := 0
	for {
		part := p[total:min(len(p), total+wire.MaxChunk)]
		err := wire.Do(ctx, f.cap, schema.File_write, func(a schema.File_write_Params, caps *vat.Caps) error {
			a.SetOffset(uint64(off + int64(total)))
			return cmp.Or(caps.Lend(schema.File_write_Params_data, part), wire.SetIf(c, a.NewIfVersion))
		}, nil)
		if err != nil {
			return total, err
		}
		if total += len(part); total == len(p) {
			return total, nil
		}
	}
}

// Append implements vfs.Appender, for at most 1 MiB at once.
func (f *File) Append(ctx context.Context, p []byte, c vfs.If) (int64, error) {
	if err := cmp.Or(f.open(), wire.CheckChunk(len(p))); err != nil {
		return 0, err
	}
	return wire.Ask(ctx, f.cap, schema.File_append, func(a schema.File_append_Params, caps *vat.Caps) error {
		return cmp.Or(caps.Lend(schema.File_append_Params_data, p), wire.SetIf(c, a.NewIfVersion))
	}, func(r schema.File_append_Results, _ *vat.Caps) (int64, error) { return wire.Offset(r.Offset()) })
}

// Truncate implements vfs.File.
func (f *File) Truncate(ctx context.Context, size int64, c vfs.If) error {
	if err := f.open(); err != nil {
		return err
	}
	if size < 0 {
		return vfs.Errorf(vfs.Invalid, "a size is negative")
	}
	return wire.Do(ctx, f.cap, schema.File_truncate, func(a schema.File_truncate_Params, _ *vat.Caps) error {
		a.SetSizeBytes(uint64(size))
		return wire.SetIf(c, a.NewIfVersion)
	}, nil)
}

// Sync implements vfs.File.
func (f *File) Sync(ctx context.Context) error {
	return do(ctx, &f.ref, schema.File_sync, nil, nil)
}

// Replace implements vfs.File, for content of any size.
func (f *File) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	if err := f.open(); err != nil {
		return vfs.Version{}, err
	}
	return upload{
		whole: func(size int, content io.Reader) (vfs.Version, error) {
			return wire.Ask(ctx, f.cap, schema.File_writeBytes, func(p schema.File_writeBytes_Params, caps *vat.Caps) error {
				return cmp.Or(fill(caps, schema.File_writeBytes_Params_data, size, content), wire.SetIf(c, p.NewIfVersion))
			}, version)
		},
		stage: func() *vat.Cap {
			return promised(ctx, f.cap, schema.File_stage, func(p schema.File_stage_Params, _ *vat.Caps) error {
				return wire.SetIf(c, p.NewIfVersion)
			}, schema.File_stage_Results_writer)
		},
	}.run(ctx, r)
}

// WriteText replaces the whole content with text, of at most 4 MiB.
func (f *File) WriteText(ctx context.Context, text string, c vfs.If) (vfs.Version, error) {
	if err := cmp.Or(f.open(), wire.CheckWhole(len(text))); err != nil {
		return vfs.Version{}, err
	}
	return wire.Ask(ctx, f.cap, schema.File_writeText, func(p schema.File_writeText_Params, _ *vat.Caps) error {
		return cmp.Or(p.SetText(text), wire.SetIf(c, p.NewIfVersion))
	}, version)
}
