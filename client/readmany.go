package client

import (
	"bytes"
	"context"
	"iter"

	"capd/cap/wire"
	schema "capd/capnp"
	"capd/vat"
	"capd/vfs"
)

// FileRead is a file that [Dir.ReadMany] has read.
type FileRead struct {
	Path    string
	Data    []byte      // the whole content
	Version vfs.Version // of Data
	Err     error       // why the file was not read: of a file above 4 MiB tooLarge
}

// ReadMany reads the files at paths and yields them in their order. One call reads up to 256 files
// and 4 MiB: many small files take few round trips. A file that cannot be read has an error of its
// own, and so has one whose read needs an approval (askDenied): ReadBytes asks for that. An error of
// ReadMany itself is the last thing yielded.
func (d *Dir) ReadMany(ctx context.Context, paths []string) iter.Seq2[FileRead, error] {
	return func(yield func(FileRead, error) bool) {
		for len(paths) > 0 {
			some, err := d.readSome(ctx, paths[:min(len(paths), wire.MaxMany)])
			if err != nil {
				yield(FileRead{}, err)
				return
			}
			for _, r := range some {
				if !yield(r, nil) {
					return
				}
			}
			paths = paths[len(some):]
		}
	}
}

// readSome reads the first of paths, as many as come with one call.
func (d *Dir) readSome(ctx context.Context, paths []string) (all []FileRead, err error) {
	if err := wire.CheckTexts(paths); err != nil {
		return nil, err
	}
	err = do(ctx, &d.ref, schema.Dir_readMany, func(p schema.Dir_readMany_Params, _ *vat.Caps) error {
		return wire.SetTexts(paths, p.NewPaths)
	}, func(r schema.Dir_readMany_Results, _ *vat.Caps) error {
		files, err := r.Files()
		if err != nil {
			return err
		}
		if files.Len() == 0 || files.Len() > len(paths) {
			return vfs.Errorf(vfs.Corrupt, "the host answered %d files for %d paths", files.Len(), len(paths))
		}
		for i := range files.Len() {
			c, err := wire.ContentAt(paths[i], files.At(i))
			if err != nil {
				return err
			}
			all = append(all, FileRead{paths[i], bytes.Clone(c.Data), c.Version, c.Err})
		}
		return nil
	})
	return all, err
}
