//go:build !linux

package physical

import (
	"errors"
	"os"
)

// openKernel fails: only Linux can confine the resolution of a path.
func openKernel(*os.File, int, bool) (host, error) { return nil, errors.ErrUnsupported }
