//go:build !unix

package git

import "os"

// withoutWaiting is nothing where directories hold no FIFOs.
const withoutWaiting = 0

// flushDirectory does nothing where a directory is no file.
func flushDirectory(*os.File) error { return nil }
