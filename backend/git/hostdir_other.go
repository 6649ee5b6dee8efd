//go:build !unix

package git

import "os"

// withoutWaiting is 0 on systems without FIFOs in directories.
const withoutWaiting = 0

// flush does nothing on systems that cannot flush a file open for reading.
func flush(*os.File) error { return nil }
