//go:build !linux

package physical

import (
	"errors"
	"os"
)

// openKernel: only Linux resolves a path confined.
func openKernel(*os.File, int, bool) (host, error) { return nil, errors.ErrUnsupported }
