//go:build !unix

package git

import "os"

// withoutWaiting is nothing where directories hold no FIFOs.
const withoutWaiting = 0

// flush does nothing where what is open for reading cannot be flushed.
func flush(*os.File) error { return nil }
