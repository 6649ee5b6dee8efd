package main

import "os"

// secret leaves it to the file's access control list.
func secret(os.FileInfo) bool { return true }

// syncDir has nothing to do: a directory cannot be flushed there.
func syncDir(string) error { return nil }
