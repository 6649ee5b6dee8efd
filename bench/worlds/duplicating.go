package worlds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"capd/backend/physical"
	"capd/client"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/deny"
	"capd/vfs/membrane"
)

// duplicating measures copying a directory within a tree: in Go as a host does it, and by a guest's call. The
// copy is on disk when capd has answered; cp leaves that for later.
func duplicating(o Options, s *sizes, dir string) world {
	cp := findCp()
	var want tally
	var locator string
	var served func() error
	const source, target = "source", "copy"
	to := filepath.Join(dir, target)
	copied := func() error {
		got, err := tallyDir(to)
		if err == nil {
			err = got.is("the copy", want)
		}
		return errors.Join(err, os.RemoveAll(to))
	}
	byCp := &contender{name: "cp -a --reflink=auto", missing: cp.missing, run: func(ctx context.Context) (func() error, error) {
		_, err := cp.run(ctx, dir, "-a", "--reflink=auto", source, target)
		return copied, err
	}}
	inGo := &contender{name: "change.Copy", run: func(ctx context.Context) (func() error, error) {
		store, err := physical.OpenAmbient(dir, physical.Options{})
		if err != nil {
			return nil, err
		}
		defer store.Close()
		root := membrane.Guarded(store.Root(), nil, deny.Must(deny.Secrets...).Guard())
		defer root.Close()
		_, err = change.Copy(ctx, root, source, root, target, vfs.If{}, vfs.If{})
		return copied, err
	}}
	overWire := &contender{name: "client.Dir.Copy", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		d := conn.Dir(ctx).SubDir(o.Served)
		_, err = d.Copy(ctx, source, d, target, vfs.If{}, vfs.If{})
		return copied, err
	}}
	n := s.copied()
	name := fmt.Sprintf("copy %s files, ", count(n))
	return world{
		rows: []row{
			{name: name + "in Go", floor: byCp, capd: inGo, target: 1.1},
			{name: name + "over the wire", floor: byCp, capd: overWire, target: 1.1},
		},
		long: true,
		setup: func(ctx context.Context) error {
			contents, random := randomContents(), rand.New(rand.NewPCG(1, 2))
			err := sow(filepath.Join(dir, source), n, func(string) []byte { return contents(1 + random.IntN(16<<10)) })
			if err != nil {
				return err
			}
			if want, err = tallyDir(filepath.Join(dir, source)); err != nil {
				return err
			}
			locator, served, err = o.Serve(ctx, dir)
			return err
		},
		close: func() error {
			if served == nil {
				return nil
			}
			return served()
		},
	}
}
