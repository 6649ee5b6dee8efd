package vfs

import "context"

// Keep takes what a change displaces, so that the change can be undone. A host puts one
// into a call; see [Call]. Only a store whose files are files of the host looks at it.
type Keep interface {
	// Near reports whether a file of the mount with this number, of statx(2), can have
	// another name where things are kept.
	Near(mount uint64) bool

	// Link calls link with a directory, open as fd, and a name in it, unless nothing is to be
	// kept. link gives the file that is about to be displaced this name as well. It is called
	// inside [Commit], just before the change, and again if the change is tried again.
	Link(link func(fd int, name string) error)
}

// Unkept returns ctx for parts of a change that displace nothing of their own, such as those
// of a copy.
func Unkept(ctx context.Context) context.Context {
	call := CallOf(ctx)
	if call.Keep == nil {
		return ctx
	}
	call.Keep = nil
	return WithCall(ctx, call)
}
