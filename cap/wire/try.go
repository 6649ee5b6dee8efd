package wire

import (
	"context"

	"capd/vat"
	"capd/vfs"
)

// Look returns the context with which a handler looks at nodes: vfs.Trying() while the
// handler tries (vat.Try), which the node has to support, and the call's own otherwise.
func Look(c interface {
	Trying() bool
	Context() context.Context
}) context.Context {
	if c.Trying() {
		return vfs.Trying()
	}
	return c.Context()
}

// Looked is vfs.At for an error of a look with such a context. It turns
// vfs.ErrWouldBlock into vat.ErrWouldBlock.
func Looked(path string, err error) error {
	if err == vfs.ErrWouldBlock {
		return vat.ErrWouldBlock
	}
	return vfs.At(path, err)
}
