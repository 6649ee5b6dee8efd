package physical

import (
	"context"

	"capd/vfs"
)

var _ vfs.Watcher = (*Dir)(nil)

// Watch implements vfs.Watcher where the kernel confines and the file system is local. It answers unsupported elsewhere. Changes
// that this package makes are told as those of any program. Directories that it may not read are left out, as in listings.
func (d *Dir) Watch(ctx context.Context, w vfs.Watch) (vfs.Watching, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	return d.s.watch(ctx, d.at, w)
}

var errNoWatch = vfs.Errorf(vfs.Unsupported, "what other programs change here cannot be told")
