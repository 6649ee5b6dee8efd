package vfstest_test

import (
	"context"
	"io"
	"strings"

	"capd/vfs"
)

// These stores differ from all others in their answers.

// talkative has messages of its own.
type talkative struct{ vfs.Dir }

func (d talkative) Replace(ctx context.Context, name string, r io.Reader, c vfs.If) (vfs.Version, error) {
	v, err := d.Dir.Replace(ctx, name, r, c)
	if vfs.CodeOf(err) == vfs.IsDir {
		err = vfs.Errorf(vfs.IsDir, "a folder of the cupboard has this name")
	}
	return v, err
}

// reserving reserves a name and says what for.
type reserving struct{ vfs.Dir }

func (d reserving) Create(ctx context.Context, name string) (vfs.File, error) {
	if name == ".git" {
		return nil, vfs.Errorf(vfs.Invalid, "the repository is here")
	}
	return d.Dir.Create(ctx, name)
}

// withFiles wraps the files in the root.
type withFiles struct {
	vfs.Dir
	wrap func(vfs.File) vfs.File
}

func (d withFiles) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if f, ok := n.(vfs.File); ok {
		return d.wrap(f), err
	}
	return n, err
}

func (d withFiles) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	if o, ok := dst.(withFiles); ok {
		dst = o.Dir
	}
	return d.Dir.Rename(ctx, name, dst, newName, from, to)
}

// checking checks the condition before it looks for the file.
type checking struct{ vfs.File }

func (f checking) Truncate(ctx context.Context, size int64, c vfs.If) error {
	err := f.File.Truncate(ctx, size, c)
	if vfs.CodeOf(err) == vfs.NotFound && !c.IsZero() {
		return c.Check(false, vfs.Version{})
	}
	return err
}

// remaking makes the file called f again if it is gone.
type remaking struct {
	vfs.File
	in vfs.Dir
}

func (f remaking) Replace(ctx context.Context, r io.Reader, c vfs.If) (vfs.Version, error) {
	if _, err := f.Stat(ctx); err != nil {
		return vfs.Version{}, err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return vfs.Version{}, err
	}
	return f.in.Replace(ctx, "f", strings.NewReader(string(content)), vfs.If{})
}

// endless never reports the end to a read of zero bytes.
type endless struct{ vfs.File }

func (f endless) ReadAt(ctx context.Context, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return f.File.ReadAt(ctx, p, off)
}

// restless makes all held directories stale whenever one moves.
type restless struct {
	vfs.Dir
	moves int
}

type restlessDir struct {
	vfs.Dir
	root *restless
	at   int
}

func (d *restless) Lookup(ctx context.Context, name string) (vfs.Node, error) {
	n, err := d.Dir.Lookup(ctx, name)
	if sub, ok := n.(vfs.Dir); ok {
		return restlessDir{sub, d, d.moves}, err
	}
	return n, err
}

func (d *restless) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	switch o := dst.(type) {
	case *restless:
		dst = o.Dir
	case restlessDir:
		dst = o.Dir
	}
	err := d.Dir.Rename(ctx, name, dst, newName, from, to)
	if err == nil {
		d.moves++
	}
	return err
}

func (d restlessDir) Create(ctx context.Context, name string) (vfs.File, error) {
	if d.at != d.root.moves {
		return nil, vfs.Stale
	}
	return d.Dir.Create(ctx, name)
}

func (d restlessDir) Rename(ctx context.Context, name string, dst vfs.Dir, newName string, from, to vfs.If) error {
	switch o := dst.(type) {
	case *restless:
		dst = o.Dir
	case restlessDir:
		dst = o.Dir
	}
	return d.Dir.Rename(ctx, name, dst, newName, from, to)
}
