package dir

import (
	"context"
	"errors"

	"capd/archive"
	"capd/cap/wire"
	schema "capd/capnp"
	"capd/meter"
	"capd/vat"
	"capd/vfs"
	"capd/vfs/change"
	"capd/vfs/membrane"
)

func (s *server) extract(c vat.Call[schema.Dir_extract_Params, schema.Dir_extract_Results]) (err error) {
	ctx, p := c.Context(), c.Params()
	path, err := wire.Path(p.PathBytes())
	if err != nil {
		return err
	}
	newPath, err := wire.Path(p.NewPathBytes())
	if err != nil {
		return err
	}
	dst, err := s.destination(ctx, c.Caps(), p, newPath)
	if err != nil {
		return err
	}
	defer func() { err = membrane.Refusal(ctx, dst, newPath, membrane.Onto(membrane.OpCopy), err) }()
	if err := membrane.May(dst, membrane.Onto(membrane.OpCopy)); err != nil {
		return vfs.At(newPath, err)
	}
	tree, end, err := opened(ctx, s.dir, path)
	if err != nil {
		return vfs.At(path, err)
	}
	defer end()
	done, err := change.Extract(ctx, tree, dst, newPath)
	if err != nil {
		if e, ok := errors.AsType[*vfs.Error](err); ok && e.Path != "" { // below newPath
			newPath = vfs.Join(newPath, e.Path)
		}
		return vfs.At(newPath, err)
	}
	c.Results().SetEntries(uint64(done.Entries))
	c.Results().SetSizeBytes(uint64(done.Bytes))
	return nil
}

// opened opens the archive at path in d. What it takes counts in the meter of the call.
func opened(ctx context.Context, d vfs.Dir, path string) (tree *archive.Tree, end func(), err error) {
	n, err := vfs.Walk(ctx, d, path)
	if err != nil {
		return nil, nil, err
	}
	f, err := vfs.AsFile(n)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	content, err := vfs.Open(ctx, f)
	if err != nil {
		return nil, nil, err
	}
	memory, disk := membrane.CallBytesOf(ctx), membrane.SpooledOf(ctx)
	yielding := func(take func(int64) error) func(int64) error {
		return func(bytes int64) error {
			if err := meter.Yield(ctx); err != nil {
				return err
			}
			return take(bytes)
		}
	}
	free := func() {
		content.Close()
		memory.End()
		disk.End()
	}
	tree, err = archive.Open(ctx, content, archive.Limits{Entries: change.MaxCopied, Memory: yielding(memory.Take), Disk: yielding(disk.Take)})
	if err != nil {
		free()
		return nil, nil, err
	}
	return tree, func() { tree.Close(); free() }, nil
}
