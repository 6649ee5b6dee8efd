package wire

import (
	"context"

	"capd/vat"
	"capd/vfs"
)

// Look returns the context to look with in a handler that tries (vat.Try): that of
// vfs.Trying while it does. What it looks at must be able to.
func Look(c interface {
	Trying() bool
	Context() context.Context
}) context.Context {
	if c.Trying() {
		return vfs.Trying()
	}
	return c.Context()
}

// Looked is vfs.At for an error of having looked so.
func Looked(path string, err error) error {
	if err == vfs.ErrWouldBlock {
		return vat.ErrWouldBlock
	}
	return vfs.At(path, err)
}
