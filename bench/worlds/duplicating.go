package worlds

import (
	"cmp"
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

// duplicating measures copying a directory within a tree, in Go as a host does it and by a guest's call, and
// extracting an archive of it. What capd makes is on disk when it has answered. cp and tar leave that for later,
// so cp is also measured with sync(1).
func duplicating(o Options, s *sizes, dir string) world {
	cp, tar, sync := findCp(), findTar(), findSync()
	var want tally
	var locator string
	var served func() error
	const source, target, archive = "source", "copy", "source.tar"
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
	byCpSynced := &contender{name: "cp -a, sync -f", missing: cmp.Or(cp.missing, sync.missing), run: func(ctx context.Context) (func() error, error) {
		_, err := cp.run(ctx, dir, "-a", "--reflink=auto", source, target)
		if err == nil {
			_, err = sync.run(ctx, dir, "-f", target)
		}
		return copied, err
	}}
	byTar := &contender{name: "tar -x", missing: tar.missing, run: func(ctx context.Context) (func() error, error) {
		err := os.Mkdir(to, 0o755)
		if err == nil {
			_, err = tar.run(ctx, to, "-xf", filepath.Join(dir, archive))
		}
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
	extracts := &contender{name: "client.Dir.Extract", missing: tar.missing, run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		d := conn.Dir(ctx).SubDir(o.Served)
		_, err = d.Extract(ctx, archive, d, target)
		return copied, err
	}}
	n := s.copied()
	name := fmt.Sprintf("copy %s files, ", count(n))
	return world{
		rows: []row{
			{name: name + "in Go", floor: byCp, capd: inGo, target: 1.1},
			{name: name + "over the wire", floor: byCp, capd: overWire, target: 1.1},
			{name: name + "in Go, and cp's synced", floor: byCpSynced, capd: inGo},
			{name: name + "over the wire, and cp's synced", floor: byCpSynced, capd: overWire},
			{name: fmt.Sprintf("extract %s files, over the wire", count(n)), floor: byTar, capd: extracts, target: 1.3},
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
			if tar.missing == "" {
				entries, err := os.ReadDir(filepath.Join(dir, source))
				if err != nil {
					return err
				}
				args := []string{"-cf", filepath.Join(dir, archive)}
				for _, e := range entries {
					args = append(args, e.Name())
				}
				if _, err := tar.run(ctx, filepath.Join(dir, source), args...); err != nil {
					return err
				}
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
