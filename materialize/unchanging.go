package materialize

import (
	"context"
	"io"
	"os"

	"capd/hostfile"
	"capd/vfs"
)

// unchanging reads a file of a tree. It answers busy when the file does not have the
// attributes a before or after.
type unchanging struct {
	ctx   context.Context
	f     *os.File
	a     attr
	begun bool
	read  int64
}

func (u *unchanging) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	if !u.begun {
		if err := u.same(); err != nil {
			return 0, err
		}
		u.begun = true
	}
	n, err := u.f.Read(p)
	if u.read += int64(n); u.read > u.a.size {
		return 0, errBusy
	}
	if err == io.EOF {
		if err := u.same(); err != nil {
			return 0, err
		}
		return n, io.EOF
	}
	return n, explain(err)
}

func (u *unchanging) same() error {
	info, err := u.f.Stat()
	if err != nil {
		return explain(err)
	}
	if attrOf(info) != u.a {
		return errBusy
	}
	return nil
}

// Close implements io.Closer.
func (u *unchanging) Close() error { return u.f.Close() }

// opener returns a function that opens the file at path if it has the attributes a. If
// a directory on the way was replaced by a link, the file is another one and has
// others.
func (t *Tree) opener(path string, a attr) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		f, err := t.root.OpenFile(path, os.O_RDONLY|hostfile.NeverWait, 0)
		if err != nil {
			if err = explain(err); vfs.CodeOf(err) != vfs.Internal {
				err = errBusy // it was there a moment ago
			}
			return nil, err
		}
		return &unchanging{ctx: ctx, f: f, a: a}, nil
	}
}
