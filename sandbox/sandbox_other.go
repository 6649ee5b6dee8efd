//go:build !linux

package sandbox

import (
	"context"

	"capd/vfs"
)

var errElsewhere = vfs.Errorf(vfs.Unsupported, "programs can be confined on Linux only")

// Inspect answers unsupported.
func Inspect() (Confinement, error) { return Confinement{}, errElsewhere }

// Run answers unsupported.
func Run(ctx context.Context, c Command) (exit int, err error) {
	if _, err := c.check(); err != nil {
		return -1, err
	}
	return -1, errElsewhere
}

// IsInit reports false.
func IsInit(args []string) bool { return false }

// Init does nothing.
func Init(args []string) {}
