package worlds

import (
	"context"
	"fmt"
	"io/fs"
	"os"

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
	return world{
		rows: []row{
			{name: fmt.Sprintf("fs.WalkDir with Info of %s files, over the wire", count(s.walked())), floor: walkHere, capd: walkThere, target: 6},
		},
		setup: func(ctx context.Context) (err error) {
			if _, err = plant(dir, s.walked()); err != nil {
				return err
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
