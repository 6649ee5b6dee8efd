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

// A notice is a directory with one file, whose text never changes.
type notice struct{ text string }

func (n notice) Lookup(_ context.Context, name string) (vfs.Node, error) {
	if name != "README" {
		return nil, vfs.NotFound
	}
	return vfs.TextFile(n.text), nil
}

func (n notice) List(context.Context) iter.Seq2[vfs.Entry, error] {
	return vfs.Entries(vfs.Entry{Name: "README", Kind: vfs.FileKind})
}

// A store that never changes implements what reads a directory. It can be mounted and
// granted like any other.
func ExampleNewImmutableDir() {
	ctx := context.Background()
	ns := namespace.New()
	defer ns.Close()
	if err := ns.Mount("notice", vfs.NewImmutableDir(notice{"Be kind.\n"}), namespace.Options{}); err != nil {
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
