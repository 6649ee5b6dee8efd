package physical

import (
	"context"

	"capd/vfs"
)

// visitor is a directory that can read files below it by descriptor alone.
type visitor interface {
	// within opens the directory at way, one or more names below this one. The caller
	// releases it.
	within(way string) (visitor, error)
	// whole reads the file called name into window. fits is false if it does not fit.
	// It never waits for anything but the disk.
	whole(name string, window []byte) (n int, fits bool, err error)
	release()
}

// Visit implements vfs.Visitor: where the kernel confines, it opens each file once, by a
// descriptor of its directory.
func (d *Dir) Visit(ctx context.Context, dir, names []string, window []byte, see func(vfs.Visited) bool) error {
	if vfs.IsTrying(ctx) {
		return vfs.ErrWouldBlock
	}
	for _, name := range dir {
		if err := checkName(name); err != nil {
			return err
		}
	}
	path := vfs.JoinAll(d.at.path, dir)
	if err := vfs.CheckPathSize(path + "/"); err != nil {
		return err
	}
	here, err := d.enter(ctx, d.at)
	if err != nil {
		return err
	}
	defer d.s.leave(here)
	in, ok := here.(visitor)
	if !ok {
		return vfs.VisitEach(ctx, d, dir, names, window, see)
	}
	if len(dir) > 0 {
		if in, err = in.within(vfs.JoinAll("", dir)); err != nil {
			return absent(here, d.at, err)
		}
		defer in.release()
	}
	for _, name := range names {
		if err := d.usable(ctx); err != nil {
			return err
		}
		seen := vfs.Visited{Name: name, Err: vfs.ErrTooLong}
		if len(path)+1+len(name) <= vfs.MaxPath {
			seen = visited(in, name, window)
		}
		if !see(seen) {
			return nil
		}
	}
	return nil
}

func visited(in visitor, name string, window []byte) vfs.Visited {
	if err := checkName(name); err != nil {
		return vfs.Visited{Name: name, Err: err}
	}
	n, fits, err := in.whole(name, window)
	switch err = regularOnly(explain(err)); {
	case err != nil:
		return vfs.Visited{Name: name, Err: err}
	case !fits:
		return vfs.Visited{Name: name, Large: true}
	}
	return vfs.Visited{Name: name, Data: window[:n]}
}

// regularOnly returns notRegular for the error that says that a directory has the name.
func regularOnly(err error) error {
	if vfs.CodeOf(err) == vfs.IsDir {
		return vfs.NotRegular
	}
	return err
}
