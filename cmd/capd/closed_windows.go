package main

import "os"

// wasClosed reports whether f, one of the standard files, was not open when the
// program started.
func wasClosed(f *os.File) bool {
	_, err := f.Stat()
	return err != nil
}
