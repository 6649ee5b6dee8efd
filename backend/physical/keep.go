package physical

import (
	"context"
	"os"

	"capd/vfs"
)

// keeps reports whether the file a can be kept under another name when the change of ctx
// displaces it. A file with more names is not: writes in place through the others would be
// refused for as long as it is kept. Nor is one of another user, which the kernel may refuse
// to link; see fs.protected_hardlinks in proc_sys_fs(5).
func (s *Store) keeps(ctx context.Context, a attr) bool {
	k := vfs.CallOf(ctx).Keep
	return k != nil && a.kind == vfs.FileKind && a.nlink == 1 && int64(a.uid) == int64(os.Geteuid()) && s.host.near(k)
}

// keep gives the file called name in dir, which is a and is about to be displaced, another name
// where the host keeps it.
func keep(ctx context.Context, dir directory, name string, a attr) {
	if k := vfs.CallOf(ctx).Keep; k != nil && a.kind == vfs.FileKind {
		k.Link(func(fd int, as string) error { return dir.link(name, fd, as) })
	}
}
