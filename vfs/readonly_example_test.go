package vfs_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"capd/vfs"
	"capd/vfs/membrane"
	"capd/vfs/namespace"
)

// A notice is a directory with one file, whose text never changes. It implements only
// what reads; vfs.ImmutableDir refuses changes.
type notice struct {
	vfs.ImmutableDir
	text string
}

func (n notice) Stat(context.Context) (vfs.Info, error) { return vfs.Info{Kind: vfs.DirKind}, nil }
func (n notice) Close() error                           { return nil }

func (n notice) Lookup(_ context.Context, name string) (vfs.Node, error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	if name != "README" {
		return nil, vfs.NotFound
	}
	return page{text: n.text}, nil
}

func (n notice) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return func(yield func(vfs.Entry, error) bool) { yield(vfs.Entry{Name: "README", Kind: vfs.FileKind}, nil) }
}

type page struct {
	vfs.ImmutableFile
	text string
}

func (p page) Stat(context.Context) (vfs.Info, error) {
	return vfs.Info{Kind: vfs.FileKind, Size: int64(len(p.text))}, nil
}
func (p page) Close() error               { return nil }
func (p page) Sync(context.Context) error { return nil }

func (p page) ReadAt(_ context.Context, b []byte, off int64) (int, error) {
	return strings.NewReader(p.text).ReadAt(b, off)
}

// A store that never changes implements only what reads. It can be mounted and granted
// like any other.
func ExampleImmutableDir() {
	ctx := context.Background()
	ns := namespace.New()
	defer ns.Close()
	if err := ns.Mount("notice", notice{text: "Be kind.\n"}, namespace.Options{}); err != nil {
		fmt.Println(err)
		return
	}
	root := membrane.Guarded(ns.Root(), nil)
	defer root.Close()
	f, err := vfs.WalkFile(ctx, root, "notice/README")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	c, err := vfs.Open(ctx, f)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	text, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	fmt.Printf("%s%v\n", text, err)
	_, err = vfs.Put(ctx, root, "notice/README", strings.NewReader("Be quick.\n"), vfs.If{})
	fmt.Println(vfs.CodeOf(err))
	// Output:
	// Be kind.
	// <nil>
	// readOnly
}
