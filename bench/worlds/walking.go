package worlds

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"capd/client"
	"capd/vfs"
)

// walking measures io/fs through Go's client, beside the same in this process.
func walking(o Options, s *sizes, dir string) world {
	var locator string
	var served func() error
	var want tally
	counted := func(got tally, err error) (func() error, error) {
		return func() error { return got.is("what the walk found", want) }, err
	}
	walkHere := &contender{name: "os.DirFS", run: func(context.Context) (func() error, error) {
		return counted(walkInfo(os.DirFS(dir)))
	}}
	walkThere := &contender{name: "vfs.FS of client.Dir", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return counted(walkInfo(vfs.FS(ctx, conn.Dir(ctx).SubDir(o.Served))))
	}}
	small := make([]string, smallFiles)
	for i := range small {
		small[i] = fmt.Sprintf("small/%04d", i)
	}
	var read tally
	readHere := &contender{name: "fs.ReadFile of os.DirFS", run: func(context.Context) (func() error, error) {
		var got tally
		fsys := os.DirFS(dir)
		for _, path := range small {
			b, err := fs.ReadFile(fsys, path)
			if err != nil {
				return nil, err
			}
			got.add(b)
		}
		return func() error { return got.is("what was read", read) }, nil
	}}
	readThere := &contender{name: "client.Dir.ReadMany", run: func(ctx context.Context) (func() error, error) {
		conn, err := client.Dial(ctx, locator)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		var got tally
		for f, err := range conn.Dir(ctx).SubDir(o.Served).ReadMany(ctx, small) {
			if err = cmp.Or(err, f.Err); err != nil {
				return nil, err
			}
			got.add(f.Data)
		}
		return func() error { return got.is("what was read", read) }, nil
	}}
	return world{
		rows: []row{
			{name: fmt.Sprintf("ReadMany of %s files of 2 KiB, over the wire", count(smallFiles)), floor: readHere, capd: readThere, target: 6},
			{name: fmt.Sprintf("fs.WalkDir with Info of %s files, over the wire", count(s.walked())), floor: walkHere, capd: walkThere, target: 6},
		},
		setup: func(ctx context.Context) (err error) {
			if _, err = plant(dir, s.walked()); err != nil {
				return err
			}
			if err := os.Mkdir(filepath.Join(dir, "small"), 0o755); err != nil {
				return err
			}
			for i, path := range small {
				content := bytes.Repeat([]byte{byte(i)}, 2<<10)
				read.add(content)
				if err := os.WriteFile(filepath.Join(dir, path), content, 0o644); err != nil {
					return err
				}
			}
			if want, err = walkInfo(os.DirFS(dir)); err != nil {
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

// smallFiles is how many small files are read.
const smallFiles = 1000

// walkInfo tallies the names and sizes of all files of fsys.
func walkInfo(fsys fs.FS) (t tally, err error) {
	err = fs.WalkDir(fsys, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || e.IsDir() {
			return err
		}
		t.add([]byte(path))
		t.bytes += info.Size()
		return nil
	})
	return t, err
}
